//! LLaMA models in a web page. For a browser this is the module that the page's worker loads; elsewhere it is the server
//! that gives the page to a browser.

#[cfg(target_arch = "wasm32")]
mod blob;
#[cfg(target_arch = "wasm32")]
mod session;

#[cfg(not(target_arch = "wasm32"))]
pub mod models;
#[cfg(not(target_arch = "wasm32"))]
pub mod server;
