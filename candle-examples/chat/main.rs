//! Chats with a quantized instruct model, with candle-transformers' own code, on any device.

mod args;
mod command;
mod interrupt;
mod session;

use args::Args;
use candle_examples::{exit, Error};
use clap::Parser;
use command::{Command, Input};
use interrupt::Interrupt;
use session::Session;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    exit::report(run(&Args::parse()))
}

fn run(args: &Args) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    let terminal = io::stdin().is_terminal();
    if args.prompt.is_empty() && terminal {
        return talk(&mut Session::open(args, interrupt)?, args);
    }
    let mut prompts = args.prompt.clone();
    if prompts.is_empty() {
        let mut all = String::new();
        io::stdin().read_to_string(&mut all)?;
        prompts.push(all.trim().to_string());
    }
    // Check before loading the model, which takes a while.
    if prompts.iter().any(|p| p.trim().is_empty()) {
        return Err(Error::PromptEmpty.into());
    }
    let mut session = Session::open(args, interrupt)?;
    for prompt in &prompts {
        if args.json {
            let line = session.json(prompt)?;
            writeln!(io::stdout(), "{line}")?;
        } else {
            session.answer(prompt)?;
        }
    }
    Ok(())
}

/// The interactive loop.
fn talk(session: &mut Session, args: &Args) -> anyhow::Result<()> {
    eprintln!("{} (type /help for help)", args.model);
    let mut lines = io::stdin().lock();
    let mut line = String::new();
    loop {
        write!(io::stdout(), "\n> ")?;
        io::stdout().flush()?;
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            writeln!(io::stdout())?;
            return Ok(());
        }
        match command::parse(&line) {
            Input::Nothing => {}
            // An error in one reply need not end the conversation.
            Input::Message(text) => match session.answer(text) {
                Err(e) if e.downcast_ref::<Error>().is_some() => eprintln!("error: {e}"),
                answered => answered?,
            },
            Input::Command(Command::Help) => eprint!("{}", command::help()),
            Input::Command(Command::Clear) => session.clear(),
            Input::Command(Command::Stats) => eprint!("{}", session.stats()),
            Input::Command(Command::Quit) => return Ok(()),
            Input::Unknown(text) => eprint!("unknown command: {text}\n{}", command::help()),
        }
    }
}
