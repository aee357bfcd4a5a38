//! The worker's interface: opens a device, loads a model, generates text.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use candle_core::Device;
use candle_examples::conversation::Conversation;
use candle_examples::generate::{sampling, Chooser, Options, Output, Sequence, Stop, Writer};
use candle_examples::gguf::{self, Gguf};
use candle_examples::llama2c::Checkpoint;
use candle_examples::model;
use candle_examples::tokenizer::Tokenizer;
use js_sys::{Function, Promise};
use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsError, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::Blob;

use crate::blob::BlobReader;

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

/// A text model continues text; a chat model answers, using its chat template.
enum Loaded {
    Text(model::Loaded),
    Chat(gguf::Loaded, Conversation),
}

#[wasm_bindgen]
pub struct Session {
    device: Device,
    loaded: Option<Loaded>,
}

#[wasm_bindgen]
impl Session {
    /// Opens a session on `webgpu` or `cpu`.
    pub async fn open(device: String) -> Result<Session> {
        let device = match device.as_str() {
            "webgpu" => Device::new_webgpu_async(0).await?,
            "cpu" => Device::Cpu,
            other => return Err(JsError::new(&format!("unknown device {other}"))),
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

    /// Loads a llama2.c checkpoint with its tokenizer, or a GGUF file, which contains its own.
    pub async fn load(&mut self, weights: Blob, tokenizer: Option<Blob>) -> Result<()> {
        // Free the previous model first.
        self.loaded = None;
        let path = Path::new("the model");
        let weights = BlobReader::new(weights)?;
        let loaded = match tokenizer {
            Some(tokenizer) => {
                let mut bytes = Vec::new();
                BlobReader::new(tokenizer)?.read_to_end(&mut bytes)?;
                let tokenizer = Tokenizer::llama2c(Path::new("the tokenizer"), &bytes)?;
                let size = weights.size();
                let checkpoint = Checkpoint::open(path, weights, size)?;
                let loaded = model::Loaded::llama2c(checkpoint, tokenizer, None, &self.device)?;
                Loaded::Text(loaded)
            }
            None => {
                let mut file = Gguf::read(path, weights)?;
                if file.suits_f32(&self.device) {
                    file = file.unpacked();
                }
                let tokenizer = Tokenizer::from_gguf(&file)?;
                let template = file.template(&tokenizer, None)?;
                let loaded = file.load(tokenizer, &self.device)?;
                let conversation = Conversation::new(template, loaded.begin, None);
                Loaded::Chat(loaded, conversation)
            }
        };
        self.device.synchronize_async().await?;
        self.loaded = Some(loaded);
        Ok(())
    }

    /// Continues or answers `text`. `show` gets each piece and returns a promise of whether to continue.
    pub async fn generate(
        &mut self,
        text: String,
        wish: JsValue,
        show: Function,
    ) -> Result<JsValue> {
        let wish: Wish = serde_wasm_bindgen::from_value(wish)?;
        let options = Options {
            tokens: wish.tokens,
            sampling: sampling(wish.temperature, None, wish.top_p),
            seed: wish.seed,
            repeat_penalty: 1.,
            repeat_last: 64,
        };
        let mut chooser = Chooser::new(&options);
        let device = &self.device;
        let show = async |piece: &str| show_piece(&show, piece).await;
        let output = match &mut self.loaded {
            None => return Err(JsError::new("no model is loaded")),
            Some(Loaded::Text(loaded)) => {
                let prompt = loaded.tokenizer.encode(&text)?;
                let mut writer = Writer {
                    model: &mut loaded.model,
                    tokenizer: &loaded.tokenizer,
                    ends: &loaded.ends,
                    context: loaded.context,
                    device,
                };
                let mut sequence = Sequence::default();
                let texts = writer.extend_async(&mut sequence, prompt, &mut chooser, show);
                texts.await?
            }
            Some(Loaded::Chat(loaded, conversation)) => {
                let mut writer = Writer {
                    model: &mut loaded.network,
                    tokenizer: &loaded.tokenizer,
                    ends: &loaded.ends,
                    context: loaded.context,
                    device,
                };
                let reply = conversation.ask_async(&text, &mut writer, &mut chooser, show);
                reply.await?.output
            }
        };
        figures(output)
    }

    /// Starts a new conversation.
    pub fn clear(&mut self) {
        if let Some(Loaded::Chat(_, conversation)) = &mut self.loaded {
            conversation.clear();
        }
    }
}

fn figures(output: Output) -> Result<JsValue> {
    let figures = Figures {
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
