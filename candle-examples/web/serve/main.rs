//! Serves the page on localhost. `cargo xtask web` builds the page and starts this program.

use std::path::PathBuf;

use anyhow::Result;
use candle_web::{models, server::Server};
use clap::Parser;

/// Installs models next to the page and serves both.
#[derive(Parser)]
struct Args {
    /// Folder of the page
    folder: PathBuf,

    /// Models to offer
    #[arg(long = "model", value_name = "NAME", default_values_t = models::names())]
    models: Vec<String>,

    /// Port on localhost; 0 selects any free port
    #[arg(long, default_value_t = 8080)]
    port: u16,

    /// Only install the models
    #[arg(long)]
    no_serve: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    models::install(&args.folder, &args.models)?;
    if args.no_serve {
        return Ok(());
    }
    tokio::runtime::Runtime::new()?.block_on(async {
        let server = Server::bind(&args.folder, args.port).await?;
        println!("{}", server.url()?);
        server.run().await
    })
}
