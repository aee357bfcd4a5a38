pub const HELP: &str = "";
#[derive(clap::Args)]
pub struct Args {}
pub fn main(_: Args) -> anyhow::Result<bool> { Ok(true) }
