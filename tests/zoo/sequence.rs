//! Encoders and encoder-decoders of text.

use anyhow::Result;
use candle_core::Tensor;
use candle_nn::VarBuilder;
use candle_transformers::models::{bert, distilbert, marian, modernbert, t5, xlm_roberta};
use serde_json::json;

use crate::model::{Model, F32, FLOATS};
use crate::passes;

#[rustfmt::skip]
pub const MODELS: &[Model] = &[
    // BERT's mask multiplies zero by f32::MIN, which is infinite in f16 and bf16: NaN on every device. Others mask in
    // f32.
    Model { name: "bert",        dtypes: F32,    run: bert },
    Model { name: "distilbert",  dtypes: F32,    run: distilbert },
    Model { name: "xlm_roberta", dtypes: FLOATS, run: xlm_roberta },
    Model { name: "modernbert",  dtypes: F32,    run: modernbert },
    Model { name: "t5",          dtypes: FLOATS, run: t5 },
    Model { name: "marian",      dtypes: F32,    run: marian },
];

/// Two texts; the second is padded.
const IDS: [[u32; 5]; 2] = [[11, 7, 40, 2, 66], [5, 33, 9, 0, 0]];
const MASK: [[u32; 5]; 2] = [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]];

fn bert(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config = bert::Config {
        vocab_size: 67,
        hidden_size: 64,
        num_hidden_layers: passes::layers(),
        num_attention_heads: 4,
        intermediate_size: 96,
        max_position_embeddings: 32,
        ..Default::default()
    };
    let (ids, mask) = (
        Tensor::new(&IDS, vb.device())?,
        Tensor::new(&MASK, vb.device())?,
    );
    let model = bert::BertModel::load(vb, &config)?;
    let mut outputs = Vec::new();
    for mask in [Some(&mask), None] {
        outputs.push(model.forward(&ids, &ids.zeros_like()?, mask)?);
        passes::end(ids.device())?;
    }
    Ok(outputs)
}

fn distilbert(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: distilbert::Config = serde_json::from_value(json!({
        "vocab_size": 67,
        "dim": 64,
        "n_layers": passes::layers(),
        "n_heads": 4,
        "hidden_dim": 96,
        "activation": "gelu",
        "max_position_embeddings": 32,
        "initializer_range": 0.02,
        "pad_token_id": 0,
    }))?;
    // 1 where attention must not look.
    let hidden = MASK.map(|row| row.map(|seen| 1 - seen as u8));
    let ids = Tensor::new(&IDS, vb.device())?;
    let hidden = Tensor::new(&hidden, vb.device())?.reshape((2, 1, 1, 5))?;
    let model = distilbert::DistilBertForMaskedLM::load(vb, &config)?;
    Ok(vec![model.forward(&ids, &hidden)?])
}

fn t5(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config = t5::Config {
        vocab_size: 67,
        d_model: 64,
        d_kv: 16,
        d_ff: 96,
        num_layers: passes::layers(),
        num_heads: 4,
        ..Default::default()
    };
    let device = vb.device().clone();
    let ids = Tensor::new(&IDS, &device)?;
    let mut model = t5::T5ForConditionalGeneration::load(vb, &config)?;
    let encoded = model.encode(&ids)?;
    let mut outputs = vec![encoded.clone()];
    for step in [[0u32, 0], [12, 51], [3, 60]] {
        let step = Tensor::new(&step, &device)?.reshape((2, 1))?;
        outputs.push(model.decode(&step, &encoded)?);
        passes::end(&device)?;
    }
    Ok(outputs)
}

fn xlm_roberta(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: xlm_roberta::Config = serde_json::from_value(json!({
        "hidden_size": 64,
        "layer_norm_eps": 1e-5,
        "attention_probs_dropout_prob": 0.0,
        "hidden_dropout_prob": 0.0,
        "num_attention_heads": 4,
        "position_embedding_type": "absolute",
        "intermediate_size": 96,
        "hidden_act": "gelu",
        "num_hidden_layers": passes::layers(),
        "vocab_size": 67,
        "max_position_embeddings": 32,
        "type_vocab_size": 1,
        "pad_token_id": 0,
    }))?;
    let ids = Tensor::new(&IDS, vb.device())?;
    let mask = Tensor::new(&MASK, vb.device())?;
    let model = xlm_roberta::XLMRobertaForSequenceClassification::new(3, &config, vb)?;
    Ok(vec![model.forward(&ids, &mask, &ids.zeros_like()?)?])
}

fn modernbert(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: modernbert::Config = serde_json::from_value(json!({
        "vocab_size": 67,
        "hidden_size": 64,
        "num_hidden_layers": passes::layers(),
        "num_attention_heads": 4,
        "intermediate_size": 96,
        "max_position_embeddings": 32,
        "layer_norm_eps": 1e-5,
        "pad_token_id": 0,
        "global_attn_every_n_layers": 2,
        "global_rope_theta": 160000.0,
        "local_attention": 4,
        "local_rope_theta": 10000.0,
    }))?;
    let ids = Tensor::new(&IDS, vb.device())?;
    let mask = Tensor::new(&MASK, vb.device())?;
    let model = modernbert::ModernBertForMaskedLM::load(vb, &config)?;
    Ok(vec![model.forward(&ids, &mask)?])
}

fn marian(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: marian::Config = serde_json::from_value(json!({
        "vocab_size": 67,
        "decoder_vocab_size": null,
        "max_position_embeddings": 32,
        "encoder_layers": 2,
        "encoder_ffn_dim": 96,
        "encoder_attention_heads": 4,
        "decoder_layers": 2,
        "decoder_ffn_dim": 96,
        "decoder_attention_heads": 4,
        "use_cache": true,
        "is_encoder_decoder": true,
        "activation_function": "swish",
        "d_model": 64,
        "decoder_start_token_id": 66,
        "scale_embedding": true,
        "pad_token_id": 66,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "share_encoder_decoder_embeddings": true,
    }))?;
    let device = vb.device().clone();
    let ids = Tensor::new(&IDS, &device)?;
    let mut model = marian::MTModel::new(&config, vb)?;
    let encoded = model.encoder().forward(&ids, 0)?;
    let mut outputs = vec![encoded.clone()];
    for (at, step) in [[66u32, 66], [12, 51], [3, 60]].into_iter().enumerate() {
        let step = Tensor::new(&step, &device)?.reshape((2, 1))?;
        outputs.push(model.decode(&step, &encoded, at)?);
    }
    Ok(outputs)
}
