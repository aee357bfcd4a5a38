//! The training loop: batch, loss, gradients, AdamW step.

use crate::data::{Random, Text};
use candle_core::{DType, Device, IndexOp, Result, Tensor, D};
use candle_examples::trainable::llama::{Config, Llama};
use candle_nn::{loss, AdamW, Optimizer, ParamsAdamW, VarBuilder, VarMap};

pub struct Options {
    pub steps: usize,
    pub batch: usize,
    pub context: usize,
    pub learning_rate: f64,
    pub seed: u64,
}

pub struct Training<'a> {
    text: &'a Text,
    options: &'a Options,
    device: &'a Device,
    model: Llama,
    optimizer: AdamW,
    random: Random,
    done: usize,
}

impl<'a> Training<'a> {
    pub fn new(text: &'a Text, options: &'a Options, device: &'a Device) -> Result<Self> {
        let config = Config::small(text.vocab(), options.context);
        let variables = VarMap::new();
        let vb = VarBuilder::from_varmap(&variables, DType::F32, device);
        let model = Llama::new(&config, vb)?;
        let mut random = Random::new(options.seed);
        init(&variables, &mut random)?;
        let params = ParamsAdamW {
            lr: options.learning_rate,
            weight_decay: 0.1,
            beta2: 0.99,
            ..Default::default()
        };
        Ok(Self {
            text,
            options,
            device,
            model,
            optimizer: AdamW::new(variables.all_vars(), params)?,
            random,
            done: 0,
        })
    }

    /// Runs one step; returns the loss before it.
    pub fn step(&mut self) -> Result<f32> {
        let shape = [self.options.batch, self.options.context];
        let (inputs, targets) = self.text.pieces(shape, &mut self.random, self.device)?;
        let logits = self.model.forward(&inputs)?;
        let loss = loss::cross_entropy(&logits.flatten_to(1)?, &targets.flatten_all()?)?;
        self.optimizer.set_learning_rate(self.learning_rate());
        self.optimizer.backward_step(&loss)?;
        self.done += 1;
        loss.to_scalar()
    }

    /// Linear warm-up over the first tenth of the steps, then cosine decay to a tenth of the peak.
    fn learning_rate(&self) -> f64 {
        let [done, steps] = [self.done + 1, self.options.steps].map(|n| n as f64);
        let warmup = (steps / 10.).max(1.);
        let factor = if done < warmup {
            done / warmup
        } else {
            let way = (done - warmup) / (steps - warmup).max(1.);
            0.55 + 0.45 * (std::f64::consts::PI * way).cos()
        };
        self.options.learning_rate * factor
    }

    /// Greedily samples `letters` letters after the first letter of the text.
    pub fn sample(&self, letters: usize) -> Result<String> {
        let mut ids: Vec<u32> = self.text.first().into_iter().collect();
        while !ids.is_empty() && ids.len() < letters {
            let seen = &ids[ids.len().saturating_sub(self.options.context)..];
            let logits = self
                .model
                .forward(&Tensor::new(seen, self.device)?.unsqueeze(0)?)?;
            let last = logits.i((0, seen.len() - 1))?;
            ids.push(last.argmax(D::Minus1)?.to_scalar()?);
        }
        Ok(self.text.decode(&ids))
    }
}

/// Initializes the weights on the host, in the order of their names, which is the same on all devices.
fn init(variables: &VarMap, random: &mut Random) -> Result<()> {
    let data = variables.data().lock();
    let data = data.unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut named: Vec<_> = data.iter().collect();
    named.sort_by_key(|(name, _)| name.as_str());
    for (_, var) in named {
        // Norm scales stay 1.
        if let [rows, columns] = *var.dims() {
            let spread = (3. / columns as f32).sqrt();
            let draw = || spread * random.signed();
            let values: Vec<f32> = std::iter::repeat_with(draw).take(rows * columns).collect();
            var.set(&Tensor::from_vec(values, (rows, columns), var.device())?)?;
        }
    }
    Ok(())
}
