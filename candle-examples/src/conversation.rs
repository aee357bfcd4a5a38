//! A conversation whose past stays in the model's key-value cache: only what is new goes through the model.

use crate::error::Result;
use crate::generate::{Chooser, Output, Sequence, Writer};
use crate::template::{Message, Role, Template};
use crate::tokenizer::Tokenizer;
use std::ops::ControlFlow;

/// The share of the context, as a divisor, that is kept free for a reply.
const ROOM: usize = 4;

pub struct Conversation {
    template: Template,
    /// The id that every text begins with, where the model wants one.
    begin: Option<u32>,
    messages: Vec<Message>,
    sequence: Sequence,
    /// What the ids of `sequence` stand for.
    text: String,
}

pub struct Reply {
    pub output: Output,
    /// How many ids of the conversation did not have to go through the model again.
    pub reused: usize,
    /// How many of the oldest turns had to go, for the rest to fit the context.
    pub forgotten: usize,
}

/// How the cache is brought to a text: by these ids behind what it holds, or from nothing.
#[derive(PartialEq, Eq, Debug)]
enum Step {
    Extend(Vec<u32>),
    Anew(Vec<u32>),
}

impl Conversation {
    pub fn new(template: Template, begin: Option<u32>, system: Option<&str>) -> Self {
        let system = system.map(|content| Message {
            role: Role::System,
            content: content.to_string(),
        });
        Self {
            template,
            begin,
            messages: system.into_iter().collect(),
            sequence: Sequence::default(),
            text: String::new(),
        }
    }

    /// Forgets everything but the system's message.
    pub fn clear(&mut self) {
        self.messages.retain(|m| m.role == Role::System);
        self.reset();
    }

    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The length of the conversation in tokens.
    pub fn tokens(&self) -> usize {
        self.sequence.ids.len()
    }

    /// Asks, and hands the reply to `show` piece by piece. A question that fails is not part of the conversation.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn ask(
        &mut self,
        question: &str,
        writer: &mut Writer<'_>,
        chooser: &mut Chooser,
        mut show: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Reply> {
        let show = async |piece: &str| show(piece);
        pollster::block_on(self.ask_async(question, writer, chooser, show))
    }

    /// The same without blocking, with a `show` that may take its time.
    pub async fn ask_async(
        &mut self,
        question: &str,
        writer: &mut Writer<'_>,
        chooser: &mut Chooser,
        show: impl AsyncFnMut(&str) -> ControlFlow<()>,
    ) -> Result<Reply> {
        let before = self.messages.len();
        self.push(Role::User, question);
        let reply = self.reply(writer, chooser, show).await;
        if reply.is_err() {
            self.messages.truncate(before);
            // A pass that broke off may have left anything in the cache.
            self.reset();
        }
        reply
    }

    async fn reply(
        &mut self,
        writer: &mut Writer<'_>,
        chooser: &mut Chooser,
        show: impl AsyncFnMut(&str) -> ControlFlow<()>,
    ) -> Result<Reply> {
        let mut forgotten = 0;
        let mut most = writer.context - writer.context / ROOM;
        let (rendered, step) = loop {
            let rendered = self.template.render(&self.messages)?;
            let step = self.step(writer.tokenizer, &rendered)?;
            let tokens = match &step {
                Step::Extend(ids) => self.sequence.ids.len() + ids.len(),
                Step::Anew(ids) => ids.len(),
            };
            if tokens <= most || !self.forget() {
                break (rendered, step);
            }
            forgotten += 1;
            // The rest has to go through the model again, which should not be so in every turn from now on.
            most = writer.context / 2;
        };
        let prompt = match step {
            Step::Extend(ids) => ids,
            Step::Anew(ids) => {
                self.reset();
                ids
            }
        };
        let reused = self.sequence.cached;
        let output = writer
            .extend_async(&mut self.sequence, prompt, chooser, show)
            .await?;
        self.text = rendered + &output.text;
        self.push(Role::Assistant, &output.text);
        Ok(Reply {
            output,
            reused,
            forgotten,
        })
    }

    /// A template may write the past in another way than it did, for example without an assistant's thoughts, so the
    /// cache is of use only where the new text begins with the old one, and where the ids at the seam do not depend on
    /// what stands before it.
    fn step(&self, tokenizer: &Tokenizer, rendered: &str) -> Result<Step> {
        let new = rendered.strip_prefix(&self.text);
        let new = new.filter(|new| !self.text.is_empty() && tokenizer.begins_special(new));
        if let Some(new) = new {
            return Ok(Step::Extend(tokenizer.encode_bare(new)?));
        }
        let mut ids = tokenizer.encode_bare(rendered)?;
        if let Some(begin) = self.begin.filter(|begin| ids.first() != Some(begin)) {
            ids.insert(0, begin);
        }
        Ok(Step::Anew(ids))
    }

    /// Drops the oldest question with its reply; false where only the latest question is left.
    fn forget(&mut self) -> bool {
        let mut questions =
            (0..self.messages.len()).filter(|&i| self.messages[i].role == Role::User);
        match (questions.next(), questions.next()) {
            (Some(first), Some(second)) => {
                self.messages.drain(first..second);
                true
            }
            _ => false,
        }
    }

    fn push(&mut self, role: Role, content: &str) {
        let content = content.to_string();
        self.messages.push(Message { role, content });
    }

    /// The next text goes through the model as a whole.
    fn reset(&mut self) {
        self.sequence = Sequence::default();
        self.text.clear();
    }
}
