//! Serves a folder on this machine, with the headers that the page can use.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use axum::http::{header, HeaderName, HeaderValue};
use axum::Router;
use tokio::net::TcpListener;
use tower_http::services::ServeDir;
use tower_http::set_header::SetResponseHeaderLayer;

/// The two policies isolate the page from others, for which browsers give it exact clocks; files are looked at again
/// each time, so that a page made anew is shown.
const HEADERS: [(HeaderName, HeaderValue); 3] = [
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-embedder-policy"),
        HeaderValue::from_static("require-corp"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

pub struct Server {
    listener: TcpListener,
    app: Router,
}

impl Server {
    /// Listens on a port of this machine; 0 takes any that is free.
    pub async fn bind(folder: &Path, port: u16) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("port {port} cannot be had"))?;
        let mut app = Router::new().fallback_service(ServeDir::new(folder));
        for (name, value) in HEADERS {
            app = app.layer(SetResponseHeaderLayer::overriding(name, value));
        }
        Ok(Self { listener, app })
    }

    pub fn url(&self) -> Result<String> {
        // Browsers take localhost as secure, which WebGPU asks for.
        Ok(format!(
            "http://localhost:{}",
            self.listener.local_addr()?.port()
        ))
    }

    pub async fn run(self) -> Result<()> {
        Ok(axum::serve(self.listener, self.app).await?)
    }
}
