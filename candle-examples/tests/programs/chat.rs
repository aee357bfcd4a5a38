//! The program `chat`, with a small generated model and with the real one.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use candle_examples::conversation::Conversation;
use candle_examples::generate::{sampling, Causal, Chooser, Options, Writer};
use candle_examples::gguf::{Gguf, Loaded};
use candle_examples::template::{Template, CHATML};
use candle_examples::tokenizer::Tokenizer;
use serde_json::Value as Json;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::tiny;

const DIM: usize = 32;
const CONTEXT: u32 = 256;

fn blocks(tensor: &Tensor, dtype: GgmlDType) -> QTensor {
    QTensor::quantize(tensor, dtype).unwrap()
}

fn model(dir: &Path) -> PathBuf {
    model_of(dir, |matrix| blocks(matrix, GgmlDType::F32))
}

/// A one-layer LLaMA with weights from a fixed sequence; its tokens are bytes and ChatML's two.
fn model_of(dir: &Path, pack: fn(&Tensor) -> QTensor) -> PathBuf {
    tiny::gguf(dir, (1, DIM, CONTEXT), pack)
}

fn load(path: &Path) -> Loaded {
    load_file(Gguf::open(path).unwrap())
}

fn load_file(file: Gguf) -> Loaded {
    let tokenizer = Tokenizer::from_gguf(&file).unwrap();
    file.load(tokenizer, &Device::Cpu).unwrap()
}

fn writer(loaded: &mut Loaded) -> Writer<'_> {
    Writer {
        model: &mut loaded.network,
        tokenizer: &loaded.tokenizer,
        ends: &loaded.ends,
        context: loaded.context,
        device: &Device::Cpu,
    }
}

fn greedy(tokens: usize) -> Chooser {
    Chooser::new(&Options {
        tokens,
        sampling: sampling(0., None, None),
        seed: 0,
        repeat_penalty: 1.,
        repeat_last: 0,
    })
}

fn conversation(template: &str) -> Conversation {
    let template = Template::new(template, "", "").unwrap();
    Conversation::new(template, None, Some("S"))
}

fn go_on(_: &str) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn a_later_turn_passes_only_what_is_new_and_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = model(dir.path());
    let (mut kept, mut fresh) = (load(&path), load(&path));
    let mut talk = conversation(CHATML);
    let mut all = Vec::new();
    for (turn, question) in ["one", "two", "three"].into_iter().enumerate() {
        let reply = talk
            .ask(question, &mut writer(&mut kept), &mut greedy(9), go_on)
            .unwrap();
        assert_eq!(reply.reused > 0, turn > 0);
        // The last token of a reply has not gone through the model yet.
        assert!(reply.output.prefilled <= reply.output.prompt.len() + 1);
        all.extend(&reply.output.prompt);
        let whole = writer(&mut fresh)
            .extend(&mut Default::default(), all.clone(), &mut greedy(9), go_on)
            .unwrap();
        assert_eq!(reply.output.ids, whole.ids, "turn {turn}");
        all.extend(&reply.output.ids);
    }
}

#[test]
fn a_template_that_rewrites_the_past_makes_the_cache_begin_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut loaded = load(&model(dir.path()));
    let mut talk = conversation(
        "{% for m in messages %}{{ loop.revindex }}{{ m.content }}<|im_end|>{% endfor %}",
    );
    for question in ["one", "two"] {
        let reply = talk
            .ask(question, &mut writer(&mut loaded), &mut greedy(9), go_on)
            .unwrap();
        assert_eq!(reply.reused, 0);
    }
}

#[test]
fn an_interrupted_reply_is_part_of_the_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let mut loaded = load(&model(dir.path()));
    let mut talk = conversation(CHATML);
    let stop = |_: &str| ControlFlow::Break(());
    let first = talk.ask("one", &mut writer(&mut loaded), &mut greedy(9), stop);
    assert_eq!(first.unwrap().output.ids.len(), 1);
    let next = talk.ask("two", &mut writer(&mut loaded), &mut greedy(9), go_on);
    assert!(next.unwrap().reused > 0);
    assert_eq!(talk.messages().len(), 5);
}

#[test]
fn a_full_context_forgets_the_oldest_turns() {
    let dir = tempfile::tempdir().unwrap();
    let mut loaded = load(&model(dir.path()));
    let mut talk = conversation(CHATML);
    let mut forgotten = 0;
    for _ in 0..6 {
        let question = "a question of some length";
        let reply = talk
            .ask(question, &mut writer(&mut loaded), &mut greedy(9), go_on)
            .unwrap();
        forgotten += reply.forgotten;
        assert!(talk.tokens() <= CONTEXT as usize);
    }
    assert!(forgotten > 0);
    // The system message stays.
    assert_eq!(talk.messages()[0].content, "S");
    assert_eq!(talk.messages().len(), 1 + 2 * (6 - forgotten));
}

#[test]
fn a_message_longer_than_the_context_is_refused_and_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let mut loaded = load(&model(dir.path()));
    let mut talk = conversation(CHATML);
    let long = "long ".repeat(100);
    let refused = talk.ask(&long, &mut writer(&mut loaded), &mut greedy(9), go_on);
    let refused = refused.err().map(|e| e.to_string());
    assert!(refused.is_some_and(|e| e.contains("context only 256")));
    let next = talk.ask("short", &mut writer(&mut loaded), &mut greedy(9), go_on);
    assert!(next.is_ok() && talk.messages().len() == 3);
}

#[test]
fn an_unpacked_file_has_the_weights_of_its_blocks_in_f32() {
    fn q4_0(matrix: &Tensor) -> QTensor {
        blocks(matrix, GgmlDType::Q4_0)
    }
    fn unpacked(matrix: &Tensor) -> QTensor {
        let matrix = q4_0(matrix).dequantize(&Device::Cpu).unwrap();
        blocks(&matrix, GgmlDType::F32)
    }
    let dir = tempfile::tempdir().unwrap();
    let file = |pack| Gguf::open(&model_of(dir.path(), pack)).unwrap();
    let logits = |file: Gguf| {
        let mut loaded = load_file(file);
        let logits = loaded.network.forward(&[1, 2, 3], 0, &Device::Cpu);
        logits.unwrap().to_vec1::<f32>().unwrap()
    };
    let expected = logits(file(unpacked));
    assert_eq!(logits(file(q4_0).unpacked()), expected);
    assert_ne!(logits(file(q4_0)), expected);
}

fn chat(args: &[&str], input: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chat"));
    command.args(args).stdin(input).output().unwrap()
}

fn lines(output: &Output) -> Vec<Json> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    stdout
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

#[test]
fn each_prompt_of_the_command_line_is_a_turn() {
    let dir = tempfile::tempdir().unwrap();
    let path = model(dir.path());
    let args = ["--device", "cpu", "--json", "-n", "9", "--temperature", "0"];
    let prompts = ["-m", path.to_str().unwrap(), "-p", "one", "-p", "two"];
    let lines = lines(&chat(&[&args[..], &prompts].concat(), Stdio::null()));
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["device"], "cpu");
    assert_eq!(lines[0]["cached_tokens"], 0);
    assert!(lines[1]["cached_tokens"].as_u64().unwrap() > 0);
}

#[test]
fn input_from_a_pipe_is_one_prompt() {
    let dir = tempfile::tempdir().unwrap();
    let path = model(dir.path());
    let question = dir.path().join("question.txt");
    std::fs::write(&question, "one\ntwo\n").unwrap();
    let args = ["--device", "cpu", "-n", "9", "-m", path.to_str().unwrap()];
    let output = chat(&args, std::fs::File::open(question).unwrap().into());
    assert!(output.status.success() && !output.stdout.is_empty());
}

#[test]
fn errors_are_one_message_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = model(dir.path());
    let model = path.to_str().unwrap();
    for (args, part) in [
        (["-m", "nowhere/model.gguf", "-p", "a"], "not found"),
        (["-m", "stories15m", "-p", "a"], "the example llama"),
        (["-m", model, "-p", " "], "give a prompt"),
    ] {
        let output = chat(&[&["--device", "cpu"], &args[..]].concat(), Stdio::null());
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && message.contains(part),
            "{message}"
        );
        assert!(!message.contains("panicked"));
    }
}

#[test]
fn a_model_that_the_hub_gave_before_is_found_without_the_hub() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("hub/models--some--model");
    for folder in ["refs", "snapshots/1234"] {
        std::fs::create_dir_all(repo.join(folder)).unwrap();
    }
    std::fs::write(repo.join("refs/main"), "1234").unwrap();
    model(&repo.join("snapshots/1234"));
    let args = ["--device", "cpu", "-n", "9", "-p", "one", "-m"];
    for (name, found) in [("some/model", true), ("some/model:Q4_0", false)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chat"));
        command
            .env("HF_HOME", dir.path())
            .env("HF_HUB_OFFLINE", "1");
        let output = command.args(args).arg(name).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), found, "{message}");
    }
}

fn capital(device: &str) {
    let args = ["--device", device, "--json", "--temperature", "0", "-p"];
    let prompts = ["What is the capital of France?", "-p", "And of Italy?"];
    let lines = lines(&chat(&[&args[..], &prompts].concat(), Stdio::null()));
    for (line, city) in lines.iter().zip(["Paris", "Rome"]) {
        assert!(line["text"].as_str().unwrap().contains(city), "{line}");
        assert_eq!(line["stop"], "end");
    }
    assert!(lines[1]["cached_tokens"].as_u64().unwrap() > 0);
}

#[test]
#[ignore = "downloads 93 MB unless smollm2-135m-q4_1 is cached"]
fn smollm2_knows_the_capital_of_france() {
    capital("cpu");
}

#[cfg(feature = "webgpu")]
#[test]
#[ignore = "downloads 93 MB unless smollm2-135m-q4_1 is cached"]
fn smollm2_knows_it_on_webgpu() {
    capital("webgpu");
}
