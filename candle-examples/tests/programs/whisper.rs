//! The program `whisper`, with the real model and real speech.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use serde_json::Value;
use std::process::Command;

fn whisper(args: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whisper"));
    command.args(args).output().unwrap()
}

#[test]
#[ignore = "downloads 71 MB unless tiny.en is cached"]
fn the_speech_is_understood() {
    let devices = if cfg!(feature = "webgpu") {
        &["cpu", "webgpu"][..]
    } else {
        &["cpu"]
    };
    for device in devices {
        let output = whisper(&["--json", "--device", device]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let line: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = line["text"].as_str().unwrap();
        let words = "ask not what your country can do for you";
        assert!(text.contains(words), "{device}: {text}");
    }
}

#[test]
fn what_is_no_wav_or_has_another_rate_is_one_message_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some.wav");
    let failing = || {
        let output = whisper(&["--device", "cpu", path.to_str().unwrap()]);
        assert!(!output.status.success());
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!message.contains("panicked"), "{message}");
        message
    };
    std::fs::write(&path, "no sound").unwrap();
    assert!(failing().contains("some.wav"));
    let spec = hound::WavSpec {
        channels: 2,
        sample_rate: 44100,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    hound::WavWriter::create(&path, spec)
        .unwrap()
        .finalize()
        .unwrap();
    assert!(failing().contains("44100"));
}
