//! A browser showing the page.

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use base64::prelude::{Engine as _, BASE64_STANDARD};
use candle_web::models;
use candle_web::server::Server;
use headless_chrome::protocol::cdp::Emulation::{
    MediaFeature, SetDeviceMetricsOverride, SetEmulatedMedia,
};
use headless_chrome::protocol::cdp::Page::CaptureScreenshotFormatOption;
use headless_chrome::{Browser, LaunchOptions, Tab};
use serde_json::{json, Value};

use crate::steps::MINUTE;

/// If this variable is set, the machine's GPU computes instead of SwiftShader.
const GPU_VAR: &str = "CANDLE_WEB_GPU";

/// How to start the browser.
#[derive(Clone, Copy)]
pub enum Gpu {
    WebGpu,
    None,
}

impl Gpu {
    fn args(self) -> &'static [&'static str] {
        match self {
            // On Linux, headless Chromium finds no adapter without these.
            Self::WebGpu if std::env::var_os(GPU_VAR).is_some() => &[
                "--enable-unsafe-webgpu",
                "--ignore-gpu-blocklist",
                "--enable-features=Vulkan",
                "--use-angle=vulkan",
                "--disable-vulkan-surface",
            ],
            Self::WebGpu => &["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"],
            Self::None => &["--disable-gpu", "--disable-features=WebGPU,WebGPUService"],
        }
    }
}

const IDLE: Duration = Duration::from_secs(1200);

/// Limits of time are those of a free machine; a busy one may take this many times as long.
const BUSY: u32 = 4;

/// The folder that `cargo xtask test web` creates.
pub fn site() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("target/site")
}

/// Serves the page and its models until the sender is dropped.
fn serve() -> Result<(String, Sender<()>)> {
    models::install(&site(), &models::names())?;
    let (told, hear) = std::sync::mpsc::channel();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Runtime::new()?;
        let server = runtime.block_on(Server::bind(&site(), 0))?;
        told.send(server.url()?)?;
        runtime.spawn(server.run());
        let _ = stopped.recv();
        runtime.shutdown_timeout(Duration::from_secs(1));
        Ok(())
    });
    Ok((hear.recv().context("the server did not start")?, stop))
}

pub struct Page {
    _browser: Browser,
    tab: Arc<Tab>,
    pub url: String,
    server: Option<Sender<()>>,
}

impl Page {
    pub fn open(gpu: Gpu, path: &str) -> Result<Self> {
        ensure!(
            site().join("pkg").exists(),
            "no target/site: run `cargo xtask test web`"
        );
        let common = ["--disable-background-networking", "--no-first-run"];
        let args = common.iter().chain(gpu.args());
        let options = LaunchOptions {
            path: std::env::var_os("CANDLE_WEB_BROWSER").map(PathBuf::from),
            sandbox: false,
            enable_gpu: true,
            window_size: Some((1000, 900)),
            idle_browser_timeout: IDLE,
            args: args.map(|arg| arg.as_ref()).collect(),
            ..LaunchOptions::default()
        };
        let browser = Browser::new(options)?;
        let tab = browser.new_tab()?;
        tab.set_default_timeout(BUSY * Duration::from_secs(60));
        let (url, stop) = serve()?;
        tab.navigate_to(&format!("{url}/{path}"))?;
        tab.wait_until_navigated()?;
        let page = Self {
            _browser: browser,
            tab,
            url,
            server: Some(stop),
        };
        page.parsed()?;
        Ok(page)
    }

    /// Waits until all elements are there.
    fn parsed(&self) -> Result<()> {
        self.wait("document.readyState === 'complete'", MINUTE)
    }

    pub fn reload(&self) -> Result<()> {
        self.tab.reload(false, None)?;
        self.tab.wait_until_navigated()?;
        self.parsed()
    }

    /// The browser has no network from now on.
    pub fn stop_server(&mut self) {
        self.server = None;
        std::thread::sleep(Duration::from_millis(1500));
    }

    /// The value of a promise, or its error's message.
    pub fn promised(&self, promise: &str) -> Result<Value> {
        let text = format!(
            "(async () => {promise})().then((v) => JSON.stringify(v ?? null), (e) => JSON.stringify(`${{e.name}}: ${{e.message}}`))"
        );
        let value = self.tab.evaluate(&text, true)?.value;
        let text = value.as_ref().and_then(Value::as_str);
        let text = text.with_context(|| format!("{promise} gives {value:?}"))?;
        Ok(serde_json::from_str(text)?)
    }

    /// Drops files, given by name and contents.
    pub fn drop(&self, files: &[(&str, Vec<u8>)]) -> Result<()> {
        let files = files
            .iter()
            .map(|(name, bytes)| json!({ "name": name, "base64": BASE64_STANDARD.encode(bytes) }));
        let files = Value::Array(files.collect());
        self.value(&format!(
            "(() => {{
                const transfer = new DataTransfer();
                for (const {{ name, base64 }} of {files}) {{
                    transfer.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], name));
                }}
                const options = {{ dataTransfer: transfer, bubbles: true, cancelable: true }};
                document.body.dispatchEvent(new DragEvent('drop', options));
            }})()"
        ))?;
        Ok(())
    }

    /// The value of an expression, passed as JSON.
    pub fn value(&self, expression: &str) -> Result<Value> {
        let json = format!("JSON.stringify({expression}) ?? \"null\"");
        let value = self.tab.evaluate(&json, false)?.value;
        let text = value.as_ref().and_then(Value::as_str);
        let text = text.with_context(|| format!("{expression} gives {value:?}"))?;
        Ok(serde_json::from_str(text)?)
    }

    pub fn text(&self, id: &str) -> Result<String> {
        let value = self.value(&format!("document.getElementById('{id}').textContent"))?;
        Ok(value.as_str().unwrap_or_default().to_string())
    }

    /// Waits until an expression is true. `limit`: on a free machine.
    pub fn wait(&self, condition: &str, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while self.value(&format!("Boolean({condition})"))? != Value::Bool(true) {
            if start.elapsed() > BUSY * limit {
                self.shot("late");
                bail!("{condition} did not become true within {limit:?}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    pub fn wait_state(&self, state: &str, limit: Duration) -> Result<()> {
        self.wait(&format!("document.body.dataset.state === '{state}'"), limit)
    }

    pub fn click(&self, selector: &str) -> Result<()> {
        self.tab.wait_for_element(selector)?.click()?;
        Ok(())
    }

    pub fn press(&self, key: &str) -> Result<()> {
        self.tab.press_key(key)?;
        Ok(())
    }

    /// Types into a field, replacing its contents.
    pub fn fill(&self, id: &str, text: &str) -> Result<()> {
        let field = format!("document.getElementById('{id}')");
        self.value(&format!("({field}.focus(), {field}.select())"))?;
        self.tab.type_str(text)?;
        Ok(())
    }

    /// Saves a screenshot in target/web-shots, for manual inspection.
    pub fn shot(&self, name: &str) {
        let folder = site().with_file_name("web-shots");
        let shot =
            self.tab
                .capture_screenshot(CaptureScreenshotFormatOption::Png, None, None, true);
        // The screenshots are not part of the test.
        if let (Ok(shot), Ok(())) = (shot, std::fs::create_dir_all(&folder)) {
            let _ = std::fs::write(folder.join(format!("{name}.png")), shot);
        }
    }

    /// Emulates a phone's screen, which is narrower than a window can be.
    pub fn phone(&self) -> Result<()> {
        let screen = json!({ "width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true });
        let screen: SetDeviceMetricsOverride = serde_json::from_value(screen)?;
        self.tab.call_method(screen)?;
        Ok(())
    }

    pub fn dark(&self) -> Result<()> {
        let feature = MediaFeature {
            name: "prefers-color-scheme".into(),
            value: "dark".into(),
        };
        self.tab.call_method(SetEmulatedMedia {
            media: None,
            features: Some(vec![feature]),
        })?;
        Ok(())
    }
}
