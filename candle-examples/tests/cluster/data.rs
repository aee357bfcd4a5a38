//! `--parallel data`.

use crate::*;
use candle_core::{DType, Device, Tensor};
use std::collections::HashMap;

#[test]
fn results_are_those_of_one_process_in_the_order_of_the_input() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let model = tiny::model(dir.path());
    let prompts = prompts(dir.path(), 6);
    let expected = expected(&model, &[], &prompts, "12");
    for ranks in [2, 3, 4] {
        let args = [
            "--device",
            DEVICE,
            "--tokens",
            "12",
            "--model",
            text(&model),
        ];
        let args = [&args[..], &["--input", text(&prompts)]].concat();
        let got = rows(&cluster(ranks, &args).output().unwrap());
        assert_eq!(each(&got, "ids"), expected, "{ranks} ranks");
        assert_eq!(each(&got, "id"), ["p0", "p1", "p2", "p3", "p4", "p5"]);
    }
}

#[test]
fn a_prompt_that_is_too_long_is_its_own_error() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let model = tiny::model(dir.path());
    let long = "word ".repeat(100);
    for mode in ["data", "pipeline", "tensor"] {
        let args = [
            "--parallel",
            mode,
            "--device",
            "cpu",
            "--model",
            text(&model),
        ];
        let args = [&args[..], &["--tokens", "3", "some", &long, "words"]].concat();
        let got = rows(&cluster(2, &args).output().unwrap());
        let message = got[1]["error"].as_str().unwrap();
        assert!(message.contains("context only 64"), "{mode}: {message}");
        for row in [&got[0], &got[2]] {
            assert_eq!(row["ids"].as_array().map(Vec::len), Some(3), "{mode}");
        }
    }
}

/// A BERT of one layer, whose words are single letters.
fn bert(dir: &Path) -> PathBuf {
    let folder = dir.join("bert");
    std::fs::create_dir(&folder).unwrap();
    let config = serde_json::json!({
        "vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 32, "hidden_act": "gelu", "hidden_dropout_prob": 0.0,
        "max_position_embeddings": 32, "type_vocab_size": 2, "initializer_range": 0.02,
        "layer_norm_eps": 1e-12, "pad_token_id": 0, "model_type": "bert",
    });
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let words = ('a'..='z').map(|c| c.to_string());
    let words = ["[PAD]", "[UNK]"]
        .map(str::to_string)
        .into_iter()
        .chain(words);
    let vocab: serde_json::Map<_, _> = words.zip(0..).map(|(w, id)| (w, Value::from(id))).collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": { "type": "WhitespaceSplit" },
        "post_processor": null, "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]" },
    });
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    let mut weights = HashMap::new();
    let mut random = tiny::random();
    let mut add = |name: &str, dims: &[usize]| {
        let values = random(dims.iter().product::<usize>() as i32);
        let weight = Tensor::from_vec(values, dims, &Device::Cpu).unwrap();
        weights.insert(name.to_string(), weight.to_dtype(DType::F32).unwrap());
    };
    for (name, rows) in [("word", 32), ("position", 32), ("token_type", 2)] {
        add(&format!("embeddings.{name}_embeddings.weight"), &[rows, 16]);
    }
    let layer = "encoder.layer.0";
    for (name, rows, columns) in [
        ("attention.self.query", 16, 16),
        ("attention.self.key", 16, 16),
        ("attention.self.value", 16, 16),
        ("attention.output.dense", 16, 16),
        ("intermediate.dense", 32, 16),
        ("output.dense", 16, 32),
    ] {
        add(&format!("{layer}.{name}.weight"), &[rows, columns]);
        add(&format!("{layer}.{name}.bias"), &[rows]);
    }
    for name in [
        "embeddings",
        "encoder.layer.0.attention.output",
        "encoder.layer.0.output",
    ] {
        add(&format!("{name}.LayerNorm.weight"), &[16]);
        add(&format!("{name}.LayerNorm.bias"), &[16]);
    }
    candle_core::safetensors::save(&weights, folder.join("model.safetensors")).unwrap();
    folder
}

#[test]
fn embeddings_do_not_depend_on_the_number_of_ranks() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let model = bert(dir.path());
    let input = dir.path().join("texts.jsonl");
    let line = |at: usize| {
        let words: Vec<_> = "abcdefg"
            .chars()
            .take(1 + at % 7)
            .map(String::from)
            .collect();
        serde_json::json!({ "text": words.join(" ") }).to_string() + "\n"
    };
    std::fs::write(&input, (0..20).map(line).collect::<String>()).unwrap();
    let run = |ranks: usize, device: &str| {
        let args = ["--task", "embed", "--batch", "3", "--device", device];
        let args = [
            &args[..],
            &["--model", text(&model), "--input", text(&input)],
        ]
        .concat();
        rows(&cluster(ranks, &args).output().unwrap())
    };
    let one = run(1, "cpu");
    assert_eq!(one.len(), 20);
    let vector = one[3]["embedding"].as_array().unwrap();
    let length: f64 = vector.iter().map(|x| x.as_f64().unwrap().powi(2)).sum();
    assert!((length - 1.).abs() < 1e-5, "{length}");
    let three = run(3, "cpu");
    for key in ["id", "embedding"] {
        assert_eq!(each(&three, key), each(&one, key), "{key}");
    }
    if DEVICE != "cpu" {
        assert_eq!(
            each(&run(2, DEVICE), "embedding"),
            each(&run(1, DEVICE), "embedding")
        );
    }
}
