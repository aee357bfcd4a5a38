//! `--parallel pipeline` and `tensor`.

use crate::*;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::Tensor;
use serde_json::json;

/// Four layers and four heads, which share two key-value heads.
fn folder(dir: &Path) -> (PathBuf, String) {
    // Also writes a tokenizer, which serves here too.
    tiny::model(dir);
    let folder = tiny::folder(dir, json!({ "num_hidden_layers": 4 }));
    (folder, text(&dir.join("tokenizer.bin")).to_string())
}

fn run(mode: &str, ranks: usize, model: &Path, more: &[&str]) -> Vec<Value> {
    let args = [
        "--parallel",
        mode,
        "--device",
        DEVICE,
        "--logits",
        "--tokens",
        "12",
    ];
    let args = [&args[..], &["--model", text(model)], more].concat();
    rows(&cluster(ranks, &args).output().unwrap())
}

fn floats(logits: &Value) -> Vec<f64> {
    let logits = logits.as_array().unwrap().iter();
    logits.map(|value| value.as_f64().unwrap()).collect()
}

/// The greatest difference of logits, relative to the greatest logit.
fn difference(a: &[Value], b: &[Value]) -> f64 {
    let pairs = a.iter().zip(b).map(|(a, b)| {
        let (a, b) = (floats(&a["logits"]), floats(&b["logits"]));
        assert_eq!(a.len(), b.len());
        let greatest = a.iter().fold(0f64, |most, x| most.max(x.abs()));
        let differences = a.iter().zip(&b).map(|(x, y)| (x - y).abs());
        differences.fold(0f64, f64::max) / greatest
    });
    pairs.fold(0f64, f64::max)
}

/// The same order of additions as one process's, except for partial sums.
const BOUND: f64 = 1e-5;

#[test]
fn pipelines_have_the_bits_of_one_process_and_tensor_parallelism_nearly() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (model, tokenizer) = folder(dir.path());
    let prompts = prompts(dir.path(), 5);
    let tokenizer = ["--tokenizer", &tokenizer];
    let more = [&tokenizer[..], &["--input", text(&prompts)]].concat();
    let expected = expected(&model, &tokenizer, &prompts, "12");
    let one = run("pipeline", 1, &model, &more);
    assert_eq!(each(&one, "ids"), expected);
    assert_eq!(each(&one, "id"), ["p0", "p1", "p2", "p3", "p4"]);
    for ranks in [2, 3, 4] {
        let pipeline = run("pipeline", ranks, &model, &more);
        for key in ["id", "ids", "text", "stop", "logits", "key"] {
            assert_eq!(
                each(&pipeline, key),
                each(&one, key),
                "{key}, {ranks} ranks"
            );
        }
        let tensor = run("tensor", ranks, &model, &more);
        assert_eq!(each(&tensor, "ids"), expected, "{ranks} ranks");
        let difference = difference(&tensor, &one);
        assert!(difference < BOUND, "{difference} with {ranks} ranks");
    }
}

#[test]
fn gguf_files_are_split_too() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    fn q8_0(matrix: &Tensor) -> QTensor {
        QTensor::quantize(matrix, GgmlDType::Q8_0).unwrap()
    }
    let model = tiny::gguf(dir.path(), (3, 128, 64), q8_0);
    let prompts = prompts(dir.path(), 3);
    let more = ["--input", text(&prompts)];
    // What candle-transformers' own model generates.
    let args = [
        "--device",
        DEVICE,
        "--tokens",
        "12",
        "--model",
        text(&model),
    ];
    let whole = rows(&cluster(2, &[&args[..], &more].concat()).output().unwrap());
    let one = run("pipeline", 1, &model, &more);
    assert_eq!(each(&one, "ids"), each(&whole, "ids"));
    let pipeline = run("pipeline", 3, &model, &more);
    for key in ["ids", "logits"] {
        assert_eq!(each(&pipeline, key), each(&one, key), "{key}");
    }
    let tensor = run("tensor", 3, &model, &more);
    assert_eq!(each(&tensor, "ids"), each(&one, "ids"));
    // Activations of quantized matmuls may be rounded to 8 bits, in blocks that differ.
    let difference = difference(&tensor, &one);
    assert!(difference < 2e-2, "{difference}");
}

/// f16 activations travel as they are.
#[test]
fn half_precision_keeps_its_bits() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (model, tokenizer) = folder(dir.path());
    let more = ["--dtype", "f16", "--tokenizer", &tokenizer, "some", "words"];
    let one = run("pipeline", 1, &model, &more);
    let two = run("pipeline", 2, &model, &more);
    for key in ["ids", "logits"] {
        assert_eq!(each(&two, key), each(&one, key), "{key}");
    }
    let tensor = run("tensor", 2, &model, &more);
    let difference = difference(&tensor, &one);
    assert!(difference < 1e-2, "{difference}");
}

#[test]
fn options_of_the_pipeline() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let model = tiny::model(dir.path());
    let prompts = prompts(dir.path(), 4);
    let expected = expected(&model, &[], &prompts, "12");
    let args = [
        "--parallel",
        "pipeline",
        "--device",
        "cpu",
        "--tokens",
        "12",
    ];
    let files = ["--model", text(&model), "--input", text(&prompts)];
    for more in [
        &["--in-flight", "1"][..],
        &["--in-flight", "9", "--layers", "1,1"],
        &["--dtype", "f32", "--wire-f16"],
    ] {
        let args = [&args[..], &files, more].concat();
        let got = rows(&cluster(2, &args).output().unwrap());
        assert_eq!(each(&got, "ids"), expected, "{more:?}");
    }
}

#[test]
fn a_benchmark_needs_no_files() {
    let _alone = alone();
    for (mode, more) in [
        ("data", &["--quant", "q4_0"][..]),
        ("pipeline", &[]),
        ("tensor", &["--quant", "q8_0"]),
    ] {
        let args = [
            "--parallel",
            mode,
            "--device",
            "cpu",
            "--bench",
            "--shape",
            "tiny",
            "--tokens",
            "4",
            "--sequences",
            "3",
            "--prompt-tokens",
            "8",
        ];
        let got = rows(&cluster(2, &[&args[..], more].concat()).output().unwrap());
        let [line] = &got[..] else {
            panic!("{got:?}");
        };
        assert_eq!((&line["tokens"], &line["ranks"]), (&json!(12), &json!(2)));
        assert!(line["tok_s"].as_f64().unwrap() > 0.);
    }
    let args = ["--measure-transfer", "--device", "cpu"];
    let got = rows(&cluster(2, &args).output().unwrap());
    assert_eq!(got.len(), 4);
    assert!(got[0]["mpi_us"]["median"].as_f64().unwrap() > 0.);
}
