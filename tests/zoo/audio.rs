//! Speech and sound.

use anyhow::Result;
use candle_core::{Tensor, D};
use candle_nn::VarBuilder;
use candle_transformers::models::{encodec, mimi, whisper};

use crate::model::{Model, F32};
use crate::passes;
use crate::weights::input;

#[rustfmt::skip]
pub const MODELS: &[Model] = &[
    Model { name: "whisper",         dtypes: F32, run: whisper },
    Model { name: "whisper_encoder", dtypes: F32, run: whisper_encoder },
    Model { name: "encodec",         dtypes: F32, run: encodec },
    Model { name: "mimi",            dtypes: F32, run: mimi },
];

fn whisper_config() -> whisper::Config {
    whisper::Config {
        num_mel_bins: 20,
        max_source_positions: 40,
        d_model: 64,
        encoder_attention_heads: 4,
        encoder_layers: passes::layers(),
        vocab_size: 67,
        max_target_positions: 16,
        decoder_attention_heads: 4,
        decoder_layers: passes::layers(),
        suppress_tokens: Vec::new(),
    }
}

fn whisper_encoder(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let mel = input("mel", (2, 20, 80), &vb)?;
    let mut model = whisper::model::Whisper::load(&vb, whisper_config())?;
    let encode = || model.encoder.forward(&mel, true);
    Ok(vec![passes::once(&mel, encode)?])
}

fn whisper(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let mel = input("mel", (1, 20, 80), &vb)?;
    let device = vb.device().clone();
    let mut model = whisper::model::Whisper::load(&vb, whisper_config())?;
    let encoded = model.encoder.forward(&mel, true)?;
    let mut outputs = vec![encoded.clone()];
    // Self-attention has no cache in this code: each step passes all tokens again.
    let ids = [50u32, 12, 7, 33];
    for n in 2..=ids.len() {
        let ids = Tensor::new(&ids[..n], &device)?.unsqueeze(0)?;
        let decoded = model.decoder.forward(&ids, &encoded, n == 2)?;
        let logits = model.decoder.final_linear(&decoded)?;
        outputs.push(candle_nn::ops::softmax(&logits, D::Minus1)?);
        outputs.push(logits);
        passes::end(&device)?;
    }
    Ok(outputs)
}

fn encodec(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config = encodec::Config {
        // Together, these give two codebooks.
        target_bandwidths: vec![2.0],
        sampling_rate: 800,
        hidden_size: 32,
        num_filters: 4,
        upsampling_ratios: vec![4, 2],
        num_lstm_layers: 1,
        codebook_size: 16,
        ..Default::default()
    };
    let sound = input("sound", (1, 1, 96), &vb)?;
    let codes = [[[3u32, 15, 0, 7, 9, 1], [11, 2, 2, 8, 4, 13]]];
    let codes = Tensor::new(&codes, vb.device())?;
    let model = encodec::Model::new(&config, vb)?;
    Ok(vec![model.encode(&sound)?, model.decode(&codes)?])
}

/// Moshi's codec.
fn mimi(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let usual = mimi::Config::v0_1(Some(4));
    let config = mimi::Config {
        sample_rate: 800.,
        frame_rate: 50.,
        seanet: mimi::seanet::Config {
            dimension: 32,
            n_filters: 4,
            ratios: vec![4, 2],
            ..usual.seanet
        },
        transformer: mimi::transformer::Config {
            d_model: 32,
            num_heads: 4,
            num_layers: passes::layers(),
            dim_feedforward: 64,
            max_seq_len: 64,
            ..usual.transformer
        },
        quantizer_bins: 16,
        quantizer_dim: 16,
        ..usual
    };
    let sound = input("sound", (1, 1, 192), &vb)?;
    let codes = [
        [3u32, 15, 0, 7, 9, 1],
        [11, 2, 2, 8, 4, 13],
        [0, 5, 10, 15, 6, 2],
        [1, 1, 7, 3, 12, 14],
    ];
    let codes = Tensor::new(&codes, vb.device())?.unsqueeze(0)?;
    let mut model = mimi::Model::new(config, vb)?;
    let heard = model.encode_pre_quantize(&sound)?;
    let spoken = passes::once(&codes, || model.decode(&codes))?;
    Ok(vec![heard, spoken])
}
