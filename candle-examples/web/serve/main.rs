//! Gives the page to a browser on this machine: `cargo xtask web` builds the page and starts this.

use std::path::PathBuf;

use anyhow::Result;
use candle_web::{models, server::Server};
use clap::Parser;

/// Puts models beside the page and serves both.
#[derive(Parser)]
struct Args {
    /// The folder of the page
    folder: PathBuf,

    /// Models to offer
    #[arg(long = "model", value_name = "NAME", default_values_t = models::names())]
    models: Vec<String>,

    /// Port on this machine; 0 takes any that is free
    #[arg(long, default_value_t = 8080)]
    port: u16,

    /// Only put the models there
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
