//! One's own models: from disk and from a URL, kept, checked, refused and deleted.

use anyhow::{ensure, Result};
use candle_core::{DType, Device};
use candle_examples::checkpoint;
use candle_examples::generate::{generate, sampling, Options};
use candle_examples::{files, model};
use serde_json::{json, Value};

use crate::driver::{site, Gpu, Page};
use crate::steps::{ask, drop_model, greedy, ids, loaded, LISTED, MINUTE};
use crate::tiny;

const WORDS: [&str; 3] = [" one", " two", " three"];

#[test]
#[ignore = "needs a browser and target/site"]
fn a_dropped_model_is_kept_listed_and_deleted() -> Result<()> {
    let page = Page::open(Gpu::None, "index.html")?;
    drop_model(&page, &[("my model.gguf", tiny::parrot("Parrot", &WORDS)?)])?;
    let memory = page.text("memory")?;
    ensure!(
        memory.contains("for weights") && memory.contains("KV cache"),
        "{memory}"
    );
    greedy(&page, 3)?;
    ask(&page, "Hi")?;
    ensure!(
        page.text("text")?.contains("one two three"),
        "{}",
        page.text("text")?
    );

    page.reload()?;
    page.wait(LISTED, MINUTE)?;
    ensure!(page.text("kept")?.contains("my model.gguf"));
    page.value("(document.getElementById('model').value = [...document.getElementById('model').options].find((o) => o.text.includes('my model')).value)")?;
    page.click("#load")?;
    loaded(&page)?;
    page.shot("own");

    page.click("#kept button")?;
    page.wait(
        "!document.getElementById('kept').textContent.includes('my model')",
        MINUTE,
    )?;
    let left = page.promised("{ const root = await (await navigator.storage.getDirectory()).getDirectoryHandle('candle-models'); \
        return (await Array.fromAsync(root.keys())).length; }")?;
    ensure!(left == 0, "{left} folders are left");
    Ok(())
}

#[test]
#[ignore = "needs a browser and target/site"]
fn a_download_is_continued() -> Result<()> {
    let bytes = tiny::parrot("Parrot", &WORDS)?;
    std::fs::write(site().join("models/parrot.gguf"), &bytes)?;
    let page = Page::open(Gpu::None, "index.html")?;
    page.wait(LISTED, MINUTE)?;
    // What an interrupted download leaves: a third of the file.
    let part = page.promised(
        "{ const { keyOf } = await import('./pkg/lib/store.js');
           const url = new URL('models/parrot.gguf', location.href).href;
           const bytes = await (await fetch(url)).arrayBuffer();
           const root = await (await navigator.storage.getDirectory()).getDirectoryHandle('candle-models', { create: true });
           const folder = await root.getDirectoryHandle(await keyOf([{ name: 'parrot.gguf', url }]), { create: true });
           const write = async (name, data) => {
             const file = await (await folder.getFileHandle(name, { create: true })).createWritable();
             await file.write(data);
             await file.close();
           };
           await write('0', bytes.slice(0, bytes.byteLength / 3));
           await write('model.json', JSON.stringify({ name: 'parrot.gguf', added: 1, files: [{ name: 'parrot.gguf', url, bytes: bytes.byteLength }] }));
           globalThis.asked = [];
           return bytes.byteLength; }",
    )?;
    ensure!(part == bytes.len(), "{part}");
    page.fill("url", &format!("{}/models/parrot.gguf", page.url))?;
    page.press("Enter")?;
    page.wait("document.body.dataset.state !== 'empty'", MINUTE)?;
    loaded(&page)?;
    greedy(&page, 3)?;
    ask(&page, "Hi")?;
    ensure!(
        page.text("text")?.contains("one two three"),
        "{}",
        page.text("text")?
    );
    ensure!(
        !page.text("kept")?.contains("not complete"),
        "{}",
        page.text("kept")?
    );

    // A missing file is an error that names it.
    page.fill("url", &format!("{}/models/none.gguf", page.url))?;
    page.press("Enter")?;
    page.wait("document.body.dataset.state === 'empty'", MINUTE)?;
    let notice = page.text("notice")?;
    ensure!(notice.contains("none.gguf: 404"), "{notice}");
    Ok(())
}

#[test]
#[ignore = "needs a browser and target/site"]
fn what_is_no_model_is_refused_with_a_reason() -> Result<()> {
    let page = Page::open(Gpu::None, "index.html")?;
    page.wait(LISTED, MINUTE)?;
    let whole = tiny::parrot("Parrot", &WORDS)?;
    let header = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let mut alone = (header.len() as u64).to_le_bytes().to_vec();
    alone.extend(header);
    alone.extend([0; 4]);
    for (name, bytes, reason) in [
        (
            "notes.txt",
            b"notes".to_vec(),
            "notes.txt: a model is a .gguf file",
        ),
        ("empty.gguf", Vec::new(), "too short"),
        (
            "text.gguf",
            b"this is a text and no model".to_vec(),
            "safetensors header",
        ),
        (
            "cut.gguf",
            whole[..whole.len() / 2].to_vec(),
            "is not within its",
        ),
        (
            "magic.gguf",
            whole[..30].to_vec(),
            "not a usable checkpoint",
        ),
        ("alone.safetensors", alone, "config.json"),
    ] {
        page.drop(&[(name, bytes)])?;
        page.wait(
            &format!(
                "document.getElementById('notice').textContent.includes({})",
                json!(reason)
            ),
            MINUTE,
        )
        .map_err(|e| {
            e.context(format!(
                "{name}: {}",
                page.text("notice").unwrap_or_default()
            ))
        })?;
        page.wait_state("empty", MINUTE)?;
    }
    page.shot("refused");
    drop_model(&page, &[("good.gguf", whole)])?;
    Ok(())
}

#[test]
#[ignore = "needs a browser and target/site"]
fn memory_is_checked_before_a_model_is_loaded() -> Result<()> {
    let page = Page::open(Gpu::None, "index.html")?;
    page.wait(LISTED, MINUTE)?;
    let judge = |largest: f64, weights: f64, adapter: Value, ram: Value| {
        let facts = json!({ "context": 4096, "weights": weights, "largest": largest, "per_token": 1048576. });
        page.promised(&format!("{{ const {{ judge }} = await import('./memory.js'); return judge({facts}, {adapter}, {ram}); }}"))
    };
    let (gib, gpu) = (
        f64::from(1 << 30),
        json!({ "max_buffer_size": 2147483648u64 }),
    );
    for (largest, weights, adapter, ram, verdict, part) in [
        (
            1.,
            6.,
            &gpu,
            json!(16. * gib),
            "fits",
            "8.0 GiB: 6.0 GiB for weights, 2.0 GiB for a KV cache of 2,048 tokens",
        ),
        (
            3.,
            6.,
            &gpu,
            json!(16. * gib),
            "no",
            "largest tensor has 3.0 GiB. This GPU's largest buffer has 2.0 GiB",
        ),
        (
            1.,
            6.,
            &gpu,
            json!(8. * gib),
            "tight",
            "reports 8.0 GiB of memory",
        ),
        (1., 6., &gpu, Value::Null, "fits", "does not tell"),
        (
            1.,
            2.,
            &Value::Null,
            Value::Null,
            "no",
            "WebAssembly, which runs it on the CPU, has 3.8 GiB",
        ),
        (
            1.,
            1.,
            &Value::Null,
            Value::Null,
            "fits",
            "3.0 GiB: 1.0 GiB",
        ),
    ] {
        let judged = judge(largest * gib, weights * gib, adapter.clone(), ram)?;
        let text = judged["text"].as_str().unwrap_or_default();
        ensure!(
            judged["verdict"] == verdict && text.contains(part),
            "{judged}"
        );
    }
    Ok(())
}

#[test]
#[ignore = "needs a browser and target/site"]
fn a_model_that_may_not_fit_is_loaded_if_one_insists() -> Result<()> {
    let page = Page::open(Gpu::WebGpu, "index.html")?;
    page.wait(LISTED, MINUTE)?;
    page.value("Object.defineProperty(navigator, 'deviceMemory', { value: 1e-4 })")?;
    page.drop(&[("parrot.gguf", tiny::parrot("Parrot", &WORDS)?)])?;
    page.wait("!document.getElementById('question').hidden", MINUTE)?;
    page.shot("memory");
    page.click("#refuse")?;
    page.wait_state("empty", MINUTE)?;
    page.click("#load")?;
    page.wait("!document.getElementById('question').hidden", MINUTE)?;
    page.click("#proceed")?;
    loaded(&page)
}

/// The config of a LLaMA with the tokenizer of [`tiny::checkpoint`].
fn llama() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "vocab_size": 10,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 64, "eos_token_id": 99,
    })
}

#[test]
#[ignore = "needs a browser and target/site"]
fn safetensors_say_the_same_as_natively() -> Result<()> {
    let config = llama();
    let (parsed, _) = checkpoint::parse_config("config.json".as_ref(), config.clone())?;
    let parts = tiny::checkpoint(&config, &checkpoint::tensors(&parsed))?;
    let dir = tempfile::tempdir()?;
    for (name, bytes) in &parts {
        std::fs::write(dir.path().join(name), bytes)?;
    }
    let located = files::locate(&dir.path().to_string_lossy(), None)?;
    let mut native: model::Loaded = files::load(&located, Some(DType::F32), 0, &Device::Cpu)?;
    let options = Options {
        tokens: 20,
        sampling: sampling(0., None, None),
        seed: 0,
        repeat_penalty: 1.,
        repeat_last: 64,
    };
    let expected = generate(&mut native, "w1 w2 w3", &options, &Device::Cpu, |_| {})?;

    let page = Page::open(Gpu::WebGpu, "index.html")?;
    drop_model(&page, &parts)?;
    ensure!(page.text("device")?.starts_with("WebGPU"));
    greedy(&page, 20)?;
    ask(&page, "w1 w2 w3")?;
    ensure!(
        ids(&page)? == expected.ids,
        "{:?}, natively {:?}",
        ids(&page)?,
        expected.ids
    );
    Ok(())
}
