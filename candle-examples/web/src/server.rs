//! Serves a folder on localhost, with the headers that the page needs.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use axum::http::{header, HeaderName, HeaderValue};
use axum::Router;
use tokio::net::TcpListener;
use tower_http::services::ServeDir;
use tower_http::set_header::SetResponseHeaderLayer;

/// What the page may load and run: only its own files, and models from anywhere. Its documents repeat this in a `meta` element, for servers
/// that send no headers. Trusted types forbid to make HTML or scripts of text.
pub const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self'; connect-src 'self' https: http://localhost:* http://127.0.0.1:*; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types candle";

/// The two policies isolate the page from other origins, so browsers give it precise clocks. `no-cache` makes the
/// browser revalidate files, so that a rebuilt page is shown.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-embedder-policy"),
        HeaderValue::from_static("require-corp"),
    ),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    ),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

pub struct Server {
    listener: TcpListener,
    app: Router,
}

impl Server {
    /// Listens on a port of localhost; 0 selects any free port.
    pub async fn bind(folder: &Path, port: u16) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on port {port}"))?;
        let mut app = Router::new().fallback_service(ServeDir::new(folder));
        for (name, value) in HEADERS {
            app = app.layer(SetResponseHeaderLayer::overriding(name, value));
        }
        Ok(Self { listener, app })
    }

    pub fn url(&self) -> Result<String> {
        // Browsers treat localhost as secure, which WebGPU requires.
        Ok(format!(
            "http://localhost:{}",
            self.listener.local_addr()?.port()
        ))
    }

    pub async fn run(self) -> Result<()> {
        Ok(axum::serve(self.listener, self.app).await?)
    }
}
