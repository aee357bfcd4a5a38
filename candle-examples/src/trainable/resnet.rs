//! ResNet for images of 32 x 32 (He et al., [Deep Residual Learning](https://arxiv.org/abs/1512.03385), section 4.2). candle-transformers' ResNet cannot
//! be trained: it pools overlapping windows, whose gradient Candle has not, and normalizes with stored statistics.

use candle_core::{Module, Result, Tensor};
use candle_nn::{
    batch_norm, conv2d_no_bias, linear, BatchNorm, Conv2d, Conv2dConfig, Linear, ModuleT,
    VarBuilder,
};

/// Channels of the three stages; each but the first halves the height and the width.
const CHANNELS: [usize; 3] = [16, 32, 64];

pub struct Resnet {
    stem: ConvNorm,
    blocks: Vec<Block>,
    head: Linear,
}

impl Resnet {
    /// A network of 6 `blocks` + 2 layers.
    pub fn new(blocks: usize, classes: usize, vb: VarBuilder) -> Result<Self> {
        let mut width = CHANNELS[0];
        let mut all = Vec::new();
        for (stage, channels) in CHANNELS.into_iter().enumerate() {
            for i in 0..blocks {
                let vb = vb.pp(format!("layer{}.{i}", stage + 1));
                all.push(Block::new(width, channels, vb)?);
                width = channels;
            }
        }
        Ok(Self {
            stem: ConvNorm::new([3, CHANNELS[0]], 3, 1, vb.pp("stem"))?,
            blocks: all,
            head: linear(width, classes, vb.pp("fc"))?,
        })
    }
}

impl ModuleT for Resnet {
    /// Logits (batch, classes) of images (batch, 3, height, width).
    fn forward_t(&self, images: &Tensor, train: bool) -> Result<Tensor> {
        let mut x = self.stem.forward_t(images, train)?.relu()?;
        for block in &self.blocks {
            x = block.forward_t(&x, train)?;
        }
        self.head.forward(&x.mean((2, 3))?)
    }
}

struct Block {
    first: ConvNorm,
    second: ConvNorm,
    /// Where the block changes the shape.
    shortcut: Option<ConvNorm>,
}

impl Block {
    fn new(input: usize, output: usize, vb: VarBuilder) -> Result<Self> {
        let stride = output / input;
        let shortcut = || ConvNorm::new([input, output], 1, stride, vb.pp("shortcut"));
        Ok(Self {
            first: ConvNorm::new([input, output], 3, stride, vb.pp("first"))?,
            second: ConvNorm::new([output, output], 3, 1, vb.pp("second"))?,
            shortcut: (input != output).then(shortcut).transpose()?,
        })
    }
}

impl ModuleT for Block {
    fn forward_t(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        let y = self.first.forward_t(x, train)?.relu()?;
        let y = self.second.forward_t(&y, train)?;
        match &self.shortcut {
            Some(shortcut) => (y + shortcut.forward_t(x, train)?)?.relu(),
            None => (y + x)?.relu(),
        }
    }
}

struct ConvNorm {
    conv: Conv2d,
    norm: BatchNorm,
}

impl ConvNorm {
    /// A convolution of `size` x `size` that keeps the image's size, divided by `stride`.
    fn new(
        [input, output]: [usize; 2],
        size: usize,
        stride: usize,
        vb: VarBuilder,
    ) -> Result<Self> {
        let config = Conv2dConfig {
            padding: size / 2,
            stride,
            ..Default::default()
        };
        Ok(Self {
            conv: conv2d_no_bias(input, output, size, config, vb.pp("conv"))?,
            norm: batch_norm(output, 1e-5, vb.pp("norm"))?,
        })
    }
}

impl ModuleT for ConvNorm {
    fn forward_t(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        self.norm.forward_t(&self.conv.forward(x)?, train)
    }
}
