//! Steps of training: a forward pass, the gradients and AdamW.

use crate::models::{ids, Pass};
use anyhow::Result;
use candle_core::{DType, Tensor};
use candle_examples::trainable::llama::{Config, Llama};
use candle_examples::trainable::resnet::Resnet;
use candle_nn::{loss, AdamW, ModuleT, Optimizer, ParamsAdamW, VarBuilder, VarMap};

/// Rows of a batch of texts.
const TEXTS: usize = 8;

/// A step that learns one batch, whose loss is on the host when it ends. Weights are new variables: those of `vb` have no gradient.
fn step(
    vb: &VarBuilder,
    build: impl FnOnce(VarBuilder) -> Result<Box<dyn Fn() -> candle_core::Result<Tensor>>>,
) -> Result<Pass> {
    let variables = VarMap::new();
    let loss = build(VarBuilder::from_varmap(&variables, vb.dtype(), vb.device()))?;
    let mut optimizer = AdamW::new(variables.all_vars(), ParamsAdamW::default())?;
    Ok(Box::new(move || {
        let loss = loss()?;
        optimizer.backward_step(&loss)?;
        loss.to_dtype(DType::F32)?.to_scalar::<f32>()?;
        Ok(loss)
    }))
}

fn learn_text(vb: &VarBuilder, config: &Config) -> Result<Pass> {
    let text = ids(TEXTS, config.context, vb.device())?;
    step(vb, |vb| {
        let model = Llama::new(config, vb)?;
        Ok(Box::new(move || {
            let logits = model.forward(&text)?;
            loss::cross_entropy(&logits.flatten_to(1)?, &text.flatten_all()?)
        }))
    })
}

pub fn llama(vb: VarBuilder<'static>) -> Result<Pass> {
    learn_text(&vb, &Config::small(64, 64))
}

pub fn llama_26m(vb: VarBuilder<'static>) -> Result<Pass> {
    let config = Config {
        vocab: 64,
        hidden: 512,
        inner: 1408,
        layers: 8,
        heads: 8,
        context: 256,
    };
    learn_text(&vb, &config)
}

pub fn resnet20(vb: VarBuilder<'static>) -> Result<Pass> {
    let images = Tensor::randn(0f32, 1., (128, 3, 32, 32), vb.device())?.to_dtype(vb.dtype())?;
    let classes = ids(1, 128, vb.device())?.flatten_all()?;
    step(&vb, |vb| {
        let model = Resnet::new(3, 10, vb)?;
        Ok(Box::new(move || {
            loss::cross_entropy(&model.forward_t(&images, true)?, &classes)
        }))
    })
}
