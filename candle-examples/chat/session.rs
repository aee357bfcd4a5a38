//! A loaded model, the conversation with it, and its display.

use crate::args::Args;
use crate::interrupt::Interrupt;
use candle_core::Device;
use candle_examples::conversation::{Conversation, Reply};
use candle_examples::device::{describe, Description};
use candle_examples::exit::write;
use candle_examples::generate::{Chooser, Stop, Writer};
use candle_examples::gguf::{self, Gguf, Loaded};
use candle_examples::memory::usage;
use candle_examples::tokenizer::Tokenizer;
use candle_examples::{Error, Result};
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

pub struct Session {
    model: String,
    device: Device,
    description: Description,
    interrupt: Interrupt,
    loaded: Loaded,
    load: Duration,
    conversation: Conversation,
    chooser: Chooser,
    stats: bool,
    last: Option<Reply>,
}

impl Session {
    pub fn open(args: &Args, interrupt: Interrupt) -> anyhow::Result<Self> {
        let device = args.device.open()?;
        let description = describe(&device);
        if !args.json {
            eprintln!("device: {description}");
        }
        let path = gguf::locate(&args.model)?;
        let start = Instant::now();
        let mut file = Gguf::open(&path)?;
        let tokenizer = match &args.tokenizer {
            Some(given) => Tokenizer::open(&gguf::locate_tokenizer(given)?)?,
            None => Tokenizer::from_gguf(&file)?,
        };
        let given = args.template.as_ref();
        let given = given.map(|path| std::fs::read_to_string(path).map_err(Error::io(path)));
        let mut template = file.template(&tokenizer, given.transpose()?.as_deref())?;
        for (name, value) in &args.set {
            template.set(name, value);
        }
        if args.dequantize.unwrap_or(file.suits_f32(&device)) {
            file = file.unpacked();
        }
        let tokens = args.options().tokens.min(file.context()?);
        file.needs().check(&args.model, tokens, &device)?;
        let loaded = file.load(tokenizer, &device)?;
        device.synchronize()?;
        Ok(Self {
            model: args.model.clone(),
            device,
            description,
            interrupt,
            load: start.elapsed(),
            conversation: Conversation::new(template, loaded.begin, args.system.as_deref()),
            loaded,
            chooser: Chooser::new(&args.options()),
            stats: args.stats,
            last: None,
        })
    }

    pub fn clear(&mut self) {
        self.conversation.clear();
    }

    /// Prints the answer as it is generated, then notes about it.
    pub fn answer(&mut self, prompt: &str) -> anyhow::Result<()> {
        let mut written = Ok(());
        let reply = self.ask(prompt, |piece| {
            written = write(piece);
            written.is_ok()
        })?;
        written.and_then(|()| write("\n"))?;
        for note in notes(reply) {
            eprintln!("[{note}]");
        }
        if self.stats {
            eprint!("{}", self.stats());
        }
        Ok(())
    }

    /// The answer and its figures, for programs.
    pub fn json(&mut self, prompt: &str) -> Result<serde_json::Value> {
        let description = self.description.clone();
        let (model, load) = (self.model.clone(), self.load);
        let Reply {
            output,
            reused,
            forgotten,
        } = self.ask(prompt, |_| true)?;
        Ok(serde_json::json!({
            "model": model,
            "device": description.device,
            "adapter": description.adapter,
            "prompt": prompt,
            "prompt_ids": output.prompt,
            "ids": output.ids,
            "text": output.text,
            "stop": output.stop,
            "cached_tokens": reused,
            "forgotten_turns": forgotten,
            "load_ms": load.as_secs_f64() * 1e3,
            "ttft_ms": output.first_token.as_secs_f64() * 1e3,
            "prompt_tok_s": output.prompt_rate(),
            "decode_tok_s": output.decode_rate(),
        }))
    }

    /// `show` gets each piece of text and returns whether to continue.
    fn ask(&mut self, prompt: &str, mut show: impl FnMut(&str) -> bool) -> Result<&Reply> {
        let speaking = self.interrupt.speaking();
        let mut writer = Writer {
            model: &mut self.loaded.network,
            tokenizer: &self.loaded.tokenizer,
            ends: &self.loaded.ends,
            context: self.loaded.context,
            device: &self.device,
        };
        let show = |piece: &str| match show(piece) {
            true => speaking.go_on(),
            false => ControlFlow::Break(()),
        };
        let reply = self
            .conversation
            .ask(prompt, &mut writer, &mut self.chooser, show)?;
        Ok(self.last.insert(reply))
    }

    pub fn stats(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<14}{value}");
        };
        let architecture = self.loaded.architecture;
        line("model", format!("{}, {architecture}", self.model));
        line("device", self.description.to_string());
        line("load", format!("{:.0} ms", self.load.as_secs_f64() * 1e3));
        let (tokens, context) = (self.conversation.tokens(), self.loaded.context);
        line("conversation", format!("{tokens} of {context} tokens"));
        if let Some(Reply { output, reused, .. }) = &self.last {
            let (new, rate) = (output.prefilled, output.prompt_rate());
            let first = output.first_token.as_secs_f64() * 1e3;
            line(
                "prompt",
                format!("{new} tokens, {rate:.1} tok/s, {reused} more in the cache"),
            );
            line("first token", format!("{first:.1} ms"));
            if let Some(rate) = output.decode_rate() {
                let made = output.ids.len();
                line("reply", format!("{made} tokens, {rate:.1} tok/s"));
            }
        }
        line("memory", usage(&self.device));
        text
    }
}

fn notes(reply: &Reply) -> Vec<String> {
    let mut notes = Vec::new();
    if reply.forgotten > 0 {
        let turns = reply.forgotten;
        notes.push(format!(
            "the context was full: dropped the {turns} oldest turns"
        ));
    }
    match reply.output.stop {
        Stop::End => {}
        Stop::Tokens => notes.push("ended by --max-tokens".to_string()),
        Stop::Context => notes.push("the context is full".to_string()),
        Stop::Interrupted => notes.push("interrupted".to_string()),
    }
    notes
}
