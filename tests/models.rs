//! Models of candle-transformers on the device against the CPU: tiny ones with random weights, and stories15M.

use std::collections::HashMap;

use anyhow::{ensure, Result};
use candle_core::{DType, Device, IndexOp, Tensor, D};
use candle_examples::files;
use candle_examples::generate::Causal;
use candle_examples::model::Loaded;
use candle_nn::VarBuilder;
use candle_transformers::models::{llama, llama2_c};
use futures_util::future::join;

fn gpu() -> Result<Device> {
    Ok(Device::new_webgpu(0)?)
}

/// SplitMix64; numbers have a standard deviation of about `scale`.
fn noise(seed: &mut u64, n: usize, scale: f64) -> Vec<f32> {
    let mut next = || {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 11) as f64 / (1u64 << 53) as f64
    };
    // The sum of three has a standard deviation of 1/2.
    let mut one = || (next() + next() + next() - 1.5) * 2. * scale;
    (0..n).map(|_| one() as f32).collect()
}

/// Random weights under the names that the LLaMA models look up.
fn weights(
    shapes: &[(String, Vec<usize>)],
    dtype: DType,
    device: &Device,
) -> Result<VarBuilder<'static>> {
    let mut seed = 7;
    let mut all = HashMap::new();
    for (name, shape) in shapes {
        let n = shape.iter().product();
        let values = match name.contains("norm") {
            true => noise(&mut seed, n, 0.1).iter().map(|v| v + 1.).collect(),
            false => noise(&mut seed, n, 0.15),
        };
        let t = Tensor::from_vec(values, shape.as_slice(), &Device::Cpu)?;
        all.insert(name.clone(), t.to_dtype(dtype)?.to_device(device)?);
    }
    Ok(VarBuilder::from_tensors(all, dtype, device))
}

fn floats(t: &Tensor) -> Result<Vec<f32>> {
    Ok(t.to_device(&Device::Cpu)?
        .to_dtype(DType::F32)?
        .flatten_all()?
        .to_vec1()?)
}

/// Logits may differ by at most `tolerance` times the greatest one.
fn close(what: &str, expected: &Tensor, got: &Tensor, tolerance: f32) -> Result<()> {
    ensure!(
        expected.dims() == got.dims(),
        "{what}: {:?} and {:?}",
        expected.dims(),
        got.dims()
    );
    let (e, g) = (floats(expected)?, floats(got)?);
    let scale = e.iter().fold(1f32, |m, v| m.max(v.abs()));
    let worst = e
        .iter()
        .zip(&g)
        .map(|(e, g)| (e - g).abs() / scale)
        .fold(0f32, |m, v| match v.is_nan() {
            true => f32::INFINITY,
            false => m.max(v),
        });
    ensure!(
        worst <= tolerance,
        "{what}: off by {worst:e} of the greatest, {tolerance:e} is allowed"
    );
    Ok(())
}

/// The tolerance of a dtype, for weights and activations rounded to it.
fn tolerance(dtype: DType) -> f32 {
    match dtype {
        DType::F32 => 1e-5,
        DType::F16 => 1e-2,
        _ => 6e-2,
    }
}

const PROMPT: [u32; 7] = [1, 17, 5, 90, 33, 2, 64];
const NEXT: [u32; 6] = [9, 80, 41, 1, 95, 12];

fn tiny_llama(heads: usize, kv_heads: usize, tied: bool) -> llama::Config {
    llama::Config {
        hidden_size: 48,
        intermediate_size: 100,
        vocab_size: 101,
        num_hidden_layers: 2,
        num_attention_heads: heads,
        num_key_value_heads: kv_heads,
        max_position_embeddings: 64,
        tie_word_embeddings: tied,
        ..llama::Config::config_7b_v2(false)
    }
}

/// Logits after the prompt and after each further token.
fn llama_logits(config: &llama::Config, dtype: DType, device: &Device) -> Result<Vec<Tensor>> {
    let vb = weights(&candle_examples::checkpoint::tensors(config), dtype, device)?;
    let model = llama::Llama::load(vb, config)?;
    let mut cache = llama::Cache::new(true, dtype, config, device)?;
    let prompt = Tensor::new(&PROMPT, device)?.unsqueeze(0)?;
    let mut all = vec![model.forward(&prompt, 0, &mut cache)?];
    for (i, id) in NEXT.iter().enumerate() {
        let id = Tensor::new(&[*id], device)?.unsqueeze(0)?;
        all.push(model.forward(&id, PROMPT.len() + i, &mut cache)?);
    }
    Ok(all)
}

/// The reference is the CPU in f32, whatever the dtype.
fn tiny(
    name: &str,
    logits: impl Fn(DType, &Device) -> Result<Vec<Tensor>>,
    dtypes: &[DType],
) -> Result<()> {
    let gpu = gpu()?;
    let expected = logits(DType::F32, &Device::Cpu)?;
    for &dtype in dtypes {
        let got = logits(dtype, &gpu)?;
        ensure!(got.len() == expected.len());
        for (i, (e, g)) in expected.iter().zip(&got).enumerate() {
            close(
                &format!("{name} {dtype:?} step {i}"),
                e,
                g,
                tolerance(dtype),
            )?;
        }
    }
    Ok(())
}

const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

#[test]
fn llama_tiny() -> Result<()> {
    let config = tiny_llama(4, 4, false);
    tiny("llama", |dtype, d| llama_logits(&config, dtype, d), &DTYPES)
}

#[test]
fn llama_tiny_grouped_queries() -> Result<()> {
    for (heads, kv_heads) in [(4, 2), (6, 1)] {
        let config = tiny_llama(heads, kv_heads, true);
        tiny(
            "llama with GQA",
            |dtype, d| llama_logits(&config, dtype, d),
            &DTYPES,
        )?;
    }
    Ok(())
}

/// The loop of docs/ahead.md generates the tokens of one that waits for each id.
#[test]
fn llama_one_pass_ahead() -> Result<()> {
    const TOKENS: usize = 30;
    let (config, device) = (tiny_llama(4, 2, false), gpu()?);
    let shapes = candle_examples::checkpoint::tensors(&config);
    let model = llama::Llama::load(weights(&shapes, DType::F32, &device)?, &config)?;
    let prompt = Tensor::new(&PROMPT, &device)?.unsqueeze(0)?;
    let empty = llama::Cache::new(true, DType::F32, &config, &device)?;

    let (mut cache, mut input, mut position) = (empty.clone(), prompt.clone(), 0);
    let mut expected = Vec::new();
    for _ in 0..TOKENS {
        let logits = model.forward(&input, position, &mut cache)?;
        let id = logits.i(0)?.argmax(D::Minus1)?.to_scalar::<u32>()?;
        expected.push(id);
        position += input.dim(1)?;
        input = Tensor::new(&[id], &device)?.unsqueeze(0)?;
    }

    let mut cache = empty;
    let ids = pollster::block_on(async {
        let mut ids = Vec::new();
        let mut next = model.forward(&prompt, 0, &mut cache)?.argmax(D::Minus1)?;
        for position in prompt.dim(1)?.. {
            let input = next.unsqueeze(0)?;
            let following = async {
                model
                    .forward(&input, position, &mut cache)?
                    .argmax(D::Minus1)
            };
            let (id, following) = join(next.to_vec1_async::<u32>(), following).await;
            ids.push(id?[0]);
            if ids.len() == TOKENS {
                break;
            }
            next = following?;
        }
        candle_core::Result::Ok(ids)
    })?;
    ensure!(ids == expected, "{ids:?}, not {expected:?}");
    Ok(())
}

fn llama2_c_logits(dtype: DType, device: &Device) -> Result<Vec<Tensor>> {
    let config = llama2_c::Config {
        dim: 48,
        hidden_dim: 100,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        vocab_size: 101,
        seq_len: 64,
        norm_eps: 1e-5,
    };
    // The names and shapes are those of the other LLaMA.
    let shapes = candle_examples::checkpoint::tensors(&tiny_llama(4, 2, false));
    let vb = weights(&shapes, dtype, device)?;
    let mut cache = llama2_c::Cache::new(true, &config, vb.pp("rot"))?;
    let model = llama2_c::Llama::load(vb, config)?;
    let prompt = Tensor::new(&PROMPT, device)?.unsqueeze(0)?;
    let mut all = vec![model.forward(&prompt, 0, &mut cache)?];
    for (i, id) in NEXT.iter().enumerate() {
        let id = Tensor::new(&[*id], device)?.unsqueeze(0)?;
        all.push(model.forward(&id, PROMPT.len() + i, &mut cache)?);
    }
    Ok(all)
}

#[test]
fn llama2_c_tiny() -> Result<()> {
    // Its tables and masks are f32 regardless of the weights' dtype.
    tiny("llama2_c", llama2_c_logits, &[DType::F32])
}

/// Greedy ids, and the logits at some steps.
fn greedy(
    loaded: &mut Loaded,
    prompt: &[u32],
    tokens: usize,
    d: &Device,
) -> Result<(Vec<u32>, Vec<Tensor>)> {
    let mut ids = prompt.to_vec();
    let mut kept = Vec::new();
    let mut at = 0;
    for step in 0..tokens {
        let logits = loaded
            .model
            .forward(&ids[at..], at, d)?
            .to_device(&Device::Cpu)?;
        at = ids.len();
        if step % 20 == 0 {
            kept.push(logits.clone());
        }
        ids.push(logits.to_dtype(DType::F32)?.argmax(0)?.to_scalar()?);
    }
    Ok((ids, kept))
}

/// Logits of every 20th step, for the same ids one by one.
fn teacher(loaded: &mut Loaded, prompt: usize, ids: &[u32], d: &Device) -> Result<Vec<Tensor>> {
    let mut kept = vec![loaded.model.forward(&ids[..prompt], 0, d)?];
    for at in prompt..ids.len() - 1 {
        let logits = loaded.model.forward(&ids[at..=at], at, d)?;
        if (at + 1 - prompt).is_multiple_of(20) {
            kept.push(logits);
        }
    }
    Ok(kept)
}

#[test]
fn stories15m() -> Result<()> {
    const TOKENS: usize = 200;
    let gpu = gpu()?;
    let files = files::locate("stories15m", None)?;
    let mut cpu = files::load(&files, Some(DType::F32), 0, &Device::Cpu)?;
    let prompt = cpu.tokenizer.encode("Once upon a time")?;
    let (ids, expected) = greedy(&mut cpu, &prompt, TOKENS, &Device::Cpu)?;
    let mut here = files::load(&files, Some(DType::F32), 0, &gpu)?;
    let (got, logits) = greedy(&mut here, &prompt, TOKENS, &gpu)?;
    ensure!(ids == got, "the CPU gives {ids:?}, the device {got:?}");
    for (i, (e, g)) in expected.iter().zip(&logits).enumerate() {
        close(&format!("f32 step {}", i * 20), e, g, 1e-4)?;
    }
    let text = cpu.tokenizer.decode(&ids)?;
    ensure!(text.contains("there was a little"), "{text}");
    for (dtype, tolerance) in [(DType::F16, 2e-2), (DType::BF16, 1e-1)] {
        let mut here = files::load(&files, Some(dtype), 0, &gpu)?;
        let logits = teacher(&mut here, prompt.len(), &ids, &gpu)?;
        for (i, (e, g)) in expected.iter().zip(&logits).enumerate() {
            close(
                &format!("{dtype:?} step {}", i * 20),
                &e.i(..)?,
                g,
                tolerance,
            )?;
        }
    }
    Ok(())
}
