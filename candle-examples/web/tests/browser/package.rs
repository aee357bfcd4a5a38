//! The npm package that the page is made of, in a page and in Node.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{ensure, Context, Result};
use candle_core::{DType, Device};
use candle_examples::embed::{self, Embedder};
use candle_examples::tokenizer;
use candle_nn::VarBuilder;
use serde_json::{json, Value};

use crate::driver::{site, Gpu, Page};
use crate::steps::MINUTE;
use crate::tiny;

const WORDS: [&str; 3] = [" one", " two", " three"];

#[test]
#[ignore = "needs a browser and target/site"]
fn the_package_streams_stops_and_reports_errors() -> Result<()> {
    std::fs::write(
        site().join("models/parrot.gguf"),
        tiny::parrot("Parrot", &WORDS)?,
    )?;
    let page = Page::open(Gpu::None, "caps.html")?;
    let result = page.promised(
        "{ const { load, kept, remove } = await import('./pkg/index.js');
           const asked = [];
           const model = await load('models/parrot.gguf', { check: (facts) => { asked.push(facts.kind); return true; } });
           let whole = '';
           const text = model.generate('Hi', { maxTokens: 6 });
           for await (const piece of text) whole += piece;
           const { ids, stop } = await text.figures;
           let count = 0;
           const long = model.generate([{ role: 'user', content: 'Hi' }], { maxTokens: 400 });
           for await (const piece of long) if ((count += 1) === 2) break;
           const broken = (await long.figures).stop;
           const bad = await model.generate([{ role: 'assistant', content: 'Hi' }]).next().catch((e) => e.message);
           const refused = await load('models/parrot.gguf', { check: () => false }).catch((e) => e.name);
           const embeds = await model.embed(['a']).catch((e) => e.message);
           const [one] = await kept();
           await remove(one.key);
           model.close();
           const closed = await model.embed(['a']).catch((e) => e.name);
           return { asked, whole, ids: ids.length, stop, broken, bad, refused, embeds, name: one.name, left: (await kept()).length, closed }; }",
    )?;
    let expected = json!({
        "asked": ["chat"], "whole": " one two three one two three", "ids": 6, "stop": "tokens", "broken": "interrupted",
        "bad": "the last message must be the user's", "refused": "AbortError", "embeds": "embedding needs a BERT model",
        "name": "parrot.gguf", "left": 0, "closed": "AbortError",
    });
    ensure!(result == expected, "{result}");
    Ok(())
}

/// The names and shapes of a BERT's tensors.
fn bert() -> (Value, Vec<(String, Vec<usize>)>) {
    let (hidden, inner) = (16, 24);
    let config = json!({
        "model_type": "bert", "vocab_size": 10, "hidden_size": hidden, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": inner, "hidden_act": "gelu",
        "hidden_dropout_prob": 0., "max_position_embeddings": 32, "type_vocab_size": 2,
        "initializer_range": 0.02, "layer_norm_eps": 1e-12, "pad_token_id": 0,
        "position_embedding_type": "absolute", "use_cache": true, "classifier_dropout": null,
    });
    let mut tensors = vec![
        (
            "embeddings.word_embeddings.weight".to_string(),
            vec![10, hidden],
        ),
        (
            "embeddings.position_embeddings.weight".to_string(),
            vec![32, hidden],
        ),
        (
            "embeddings.token_type_embeddings.weight".to_string(),
            vec![2, hidden],
        ),
    ];
    let layer = "encoder.layer.0";
    let linears = [
        (format!("{layer}.attention.self.query"), hidden, hidden),
        (format!("{layer}.attention.self.key"), hidden, hidden),
        (format!("{layer}.attention.self.value"), hidden, hidden),
        (format!("{layer}.attention.output.dense"), hidden, hidden),
        (format!("{layer}.intermediate.dense"), inner, hidden),
        (format!("{layer}.output.dense"), hidden, inner),
    ];
    for (name, rows, columns) in linears {
        tensors.push((format!("{name}.weight"), vec![rows, columns]));
        tensors.push((format!("{name}.bias"), vec![rows]));
    }
    let norms = [
        "embeddings".to_string(),
        format!("{layer}.attention.output"),
        format!("{layer}.output"),
    ];
    for name in norms {
        tensors.push((format!("{name}.LayerNorm.weight"), vec![hidden]));
        tensors.push((format!("{name}.LayerNorm.bias"), vec![hidden]));
    }
    (config, tensors)
}

#[test]
#[ignore = "needs a browser and target/site"]
fn embeddings_are_those_of_the_native_cpu() -> Result<()> {
    let (config, tensors) = bert();
    let parts = tiny::checkpoint(&config, &tensors)?;
    let folder = site().join("models/bert");
    std::fs::create_dir_all(&folder)?;
    for (name, bytes) in &parts {
        std::fs::write(folder.join(name), bytes)?;
    }
    let texts = ["w1 w2 w3".to_string(), "w4".to_string()];
    let parsed = embed::parse_config("config.json".as_ref(), config.to_string().as_bytes())?;
    let weights =
        VarBuilder::from_buffered_safetensors(parts[2].1.clone(), DType::F32, &Device::Cpu)?;
    let path = "tokenizer.json".as_ref();
    let embedder = Embedder::new(
        &parsed,
        (path, tokenizer::parse(path, &parts[1].1)?),
        weights,
        &Device::Cpu,
    )?;
    let expected: Vec<f32> = embedder.embed(&texts)?.flatten_all()?.to_vec1()?;

    let page = Page::open(Gpu::None, "caps.html")?;
    let found = page.promised(&format!(
        "{{ const {{ load }} = await import('./pkg/index.js');
            const model = await load('models/bert/');
            return (await model.embed({})).flatMap((row) => [...row]); }}",
        json!(texts)
    ))?;
    let found: Vec<f32> =
        serde_json::from_value(found.clone()).with_context(|| found.to_string())?;
    let worst = expected
        .iter()
        .zip(&found)
        .map(|(a, b)| (a - b).abs())
        .fold(0., f32::max);
    ensure!(
        found.len() == expected.len() && worst < 1e-4,
        "{worst}: {found:?}, natively {expected:?}"
    );
    Ok(())
}

#[test]
#[ignore = "needs a browser and target/site"]
fn the_example_page_answers() -> Result<()> {
    let page = Page::open(Gpu::None, "example.html")?;
    page.click("#ask button")?;
    page.wait(
        "document.getElementById('status').textContent.includes('tok/s')",
        3 * MINUTE,
    )?;
    ensure!(
        page.text("answer")?.contains("Paris"),
        "{}",
        page.text("answer")?
    );
    Ok(())
}

/// On Node's CPU, since npm's `webgpu` needs a Vulkan driver and a download.
#[test]
#[ignore = "needs target/site; without node it does nothing"]
fn node_says_the_same() -> Result<()> {
    let Ok(version) = Command::new("node").arg("--version").output() else {
        eprintln!("no node");
        return Ok(());
    };
    ensure!(version.status.success());
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("parrot.gguf");
    std::fs::write(&path, tiny::parrot("Parrot", &WORDS)?)?;
    let package: PathBuf = site().join("pkg").canonicalize()?;
    let script = format!(
        "import {{ load }} from {};
         const model = await load({}, {{ device: 'cpu' }});
         let whole = '';
         for await (const piece of model.generate('Hi', {{ maxTokens: 5 }})) whole += piece;
         console.log(model.facts.name + whole);
         process.exit();",
        json!(package.join("node.js")),
        json!(path)
    );
    let file = dir.path().join("say.mjs");
    std::fs::write(&file, script)?;
    let output = Command::new("node").arg(&file).output()?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(out.trim() == "Parrot one two three one two", "{out}{err}");
    Ok(())
}
