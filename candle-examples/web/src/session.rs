//! The module's interface: opens a device, loads a model, generates and embeds text.

use std::ops::ControlFlow;

use candle_core::Device;
use candle_examples::generate::{sampling, Chooser, Options, Output, Sequence, Stop};
use candle_examples::template::{Message, Role};
use js_sys::{Float32Array, Function, Promise};
use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsError, JsValue};
use wasm_bindgen_futures::JsFuture;

use crate::bench::Bench;
use crate::model::{Loaded, Opened};
use crate::source::JsFiles;

type Result<T> = std::result::Result<T, JsError>;

#[wasm_bindgen(start)]
fn start() {
    console_error_panic_hook::set_once();
}

/// Generation options.
#[derive(Deserialize)]
struct Wish {
    tokens: usize,
    temperature: f64,
    top_p: Option<f64>,
    seed: u64,
}

#[derive(Serialize)]
struct Figures {
    prompt: Vec<u32>,
    ids: Vec<u32>,
    stop: Stop,
    /// Ids of the prompt that were in the KV cache, and oldest turns dropped to fit the context.
    reused: usize,
    forgotten: usize,
    first_token_ms: f64,
    prompt_rate: f64,
    decode_rate: Option<f64>,
}

#[derive(Serialize)]
struct Adapter {
    name: String,
    kind: String,
    features: Vec<&'static str>,
    subgroup: Option<(u32, u32)>,
    max_buffer_size: u64,
    max_storage_buffer_binding_size: u64,
    max_storage_buffers: u32,
    max_workgroup_storage: u32,
    allocated_bytes: u64,
}

#[wasm_bindgen]
pub struct Session {
    device: Device,
    loaded: Option<Loaded>,
}

fn failed(message: &str) -> JsError {
    JsError::new(message)
}

#[wasm_bindgen]
impl Session {
    /// Opens a session on `webgpu` or `cpu`.
    pub async fn open(device: String) -> Result<Session> {
        let device = match device.as_str() {
            "webgpu" => Device::new_webgpu_async(0).await?,
            "cpu" => Device::Cpu,
            other => return Err(failed(&format!("unknown device {other}"))),
        };
        Ok(Self {
            device,
            loaded: None,
        })
    }

    /// Facts about the adapter; nothing for the CPU.
    pub fn adapter(&self) -> Result<JsValue> {
        let Ok(device) = self.device.as_webgpu_device() else {
            return Ok(JsValue::NULL);
        };
        let (adapter, limits) = (device.adapter(), device.runtime().limits());
        let adapter = Adapter {
            name: adapter.name.clone(),
            kind: adapter.kind.clone(),
            features: adapter.features.clone(),
            subgroup: adapter.subgroup,
            max_buffer_size: adapter.max_buffer_size,
            max_storage_buffer_binding_size: adapter.max_storage_buffer_binding_size,
            max_storage_buffers: limits.max_storage_buffers_per_shader_stage,
            max_workgroup_storage: adapter.max_workgroup_storage,
            allocated_bytes: device.stats().allocated_bytes,
        };
        Ok(serde_wasm_bindgen::to_value(&adapter)?)
    }

    /// What the model of these files is and needs, from their metadata: a GGUF file, safetensors files with their JSON files, or a
    /// llama2.c checkpoint with its tokenizer.bin.
    pub fn inspect(&self, files: JsFiles) -> Result<JsValue> {
        let facts = Opened::new(&files, &self.device)?.facts(&self.device)?;
        Ok(serde_wasm_bindgen::to_value(&facts)?)
    }

    /// Loads the model of these files.
    pub async fn load(&mut self, files: JsFiles) -> Result<()> {
        // Free the previous model first.
        self.loaded = None;
        let loaded = Opened::new(&files, &self.device)?.load(&self.device)?;
        self.device.synchronize_async().await?;
        self.loaded = Some(loaded);
        Ok(())
    }

    /// Answers the last of `messages`, or continues it if the model is a text model. `show` gets each piece and returns a promise of
    /// whether to continue.
    pub async fn generate(
        &mut self,
        messages: JsValue,
        wish: JsValue,
        show: Function,
    ) -> Result<JsValue> {
        let mut messages: Vec<Message> = serde_wasm_bindgen::from_value(messages)?;
        let wish: Wish = serde_wasm_bindgen::from_value(wish)?;
        let options = Options {
            tokens: wish.tokens,
            sampling: sampling(wish.temperature, None, wish.top_p),
            seed: wish.seed,
            repeat_penalty: 1.,
            repeat_last: 64,
        };
        let mut chooser = Chooser::new(&options);
        let show = async |piece: &str| show_piece(&show, piece).await;
        if messages.last().is_none_or(|last| last.role != Role::User) {
            return Err(failed("the last message must be the user's"));
        }
        let generator = match &mut self.loaded {
            Some(Loaded::Generator(generator)) => generator,
            Some(Loaded::Embedder(_)) => {
                return Err(failed("this model embeds, it does not generate"))
            }
            None => return Err(failed("no model is loaded")),
        };
        let (mut writer, conversation) = generator.parts(&self.device);
        match conversation {
            Some(conversation) => {
                let reply = conversation.answer_async(messages, &mut writer, &mut chooser, show);
                let reply = reply.await?;
                figures(reply.output, reply.reused, reply.forgotten)
            }
            None => {
                let text = messages.pop().map(|last| last.content).unwrap_or_default();
                let prompt = writer.tokenizer.encode(&text)?;
                let mut sequence = Sequence::default();
                let texts = writer.extend_async(&mut sequence, prompt, &mut chooser, show);
                figures(texts.await?, 0, 0)
            }
        }
    }

    /// A unit vector for each text.
    pub async fn embed(&self, texts: Vec<String>) -> Result<Vec<Float32Array>> {
        let Some(Loaded::Embedder(embedder)) = &self.loaded else {
            return Err(failed("embedding needs a BERT model"));
        };
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<Vec<f32>> = embedder.embed(&texts)?.to_vec2_async().await?;
        Ok(rows
            .iter()
            .map(|row| Float32Array::from(&row[..]))
            .collect())
    }

    /// A model with random weights of a shape, with room for `tokens`.
    pub fn bench(&self, shape: &str, weights: &str, tokens: usize) -> Result<Bench> {
        Bench::new(shape, weights, tokens, &self.device)
    }
}

fn figures(output: Output, reused: usize, forgotten: usize) -> Result<JsValue> {
    let figures = Figures {
        reused,
        forgotten,
        first_token_ms: output.first_token.as_secs_f64() * 1e3,
        prompt_rate: output.prompt_rate(),
        decode_rate: output.decode_rate(),
        prompt: output.prompt,
        ids: output.ids,
        stop: output.stop,
    };
    Ok(serde_wasm_bindgen::to_value(&figures)?)
}

/// Any result other than a promise of `true` stops the generation.
async fn show_piece(show: &Function, piece: &str) -> ControlFlow<()> {
    let shown = show.call1(&JsValue::NULL, &JsValue::from_str(piece));
    let wants_more = match shown.map(|v| v.dyn_into::<Promise>()) {
        Ok(Ok(promise)) => JsFuture::from(promise).await.ok(),
        Ok(Err(value)) => Some(value),
        Err(_) => None,
    };
    match wants_more.and_then(|v| v.as_bool()) {
        Some(true) => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    }
}
