//! A conversation whose history stays in the model's KV cache: only new tokens go through the model.

use crate::error::Result;
use crate::generate::{Chooser, Output, Sequence, Writer};
use crate::template::{Message, Role, Template};
use crate::tokenizer::Tokenizer;
use std::ops::ControlFlow;

/// 1/ROOM of the context is kept free for the reply.
const ROOM: usize = 4;

pub struct Conversation {
    template: Template,
    /// The id with which every text begins, if the model requires one.
    begin: Option<u32>,
    messages: Vec<Message>,
    sequence: Sequence,
    /// The text of the ids in `sequence`.
    text: String,
}

pub struct Reply {
    pub output: Output,
    /// Number of ids that were already in the KV cache.
    pub reused: usize,
    /// Number of oldest turns dropped to fit the context.
    pub forgotten: usize,
}

/// How to bring the KV cache to a text: append these ids, or start over with these.
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

    /// Removes all messages but the system message.
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

    /// Sends a question and passes the reply to `show` in pieces. A question that fails is removed from the
    /// conversation.
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

    /// [`ask`](Self::ask) without blocking; `show` is async.
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
            // A forward pass that failed may have left the cache in any state.
            self.reset();
        }
        reply
    }

    /// Replies to the last of `messages`, which replace those of this conversation. What the KV cache has of them is reused.
    pub async fn answer_async(
        &mut self,
        messages: Vec<Message>,
        writer: &mut Writer<'_>,
        chooser: &mut Chooser,
        show: impl AsyncFnMut(&str) -> ControlFlow<()>,
    ) -> Result<Reply> {
        self.messages = messages;
        let reply = self.reply(writer, chooser, show).await;
        if reply.is_err() {
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
            // What remains must be prefilled again. Free half of the context, so that this does not happen at every
            // turn.
            most = writer.context / 2;
        };
        let prompt = match step {
            Step::Extend(ids) => ids,
            Step::Anew(ids) => {
                self.reset();
                ids
            }
        };
        let tokens = self.sequence.ids.len() + prompt.len();
        let output = writer
            .extend_async(&mut self.sequence, prompt, chooser, show)
            .await?;
        self.text = rendered + &output.text;
        self.push(Role::Assistant, &output.text);
        Ok(Reply {
            reused: tokens - output.prefilled,
            output,
            forgotten,
        })
    }

    /// Reuses the cache if the new text starts with the old one and continues with a special token, which makes the ids
    /// on its two sides independent. A template may also render past messages differently, for example without an
    /// assistant's thoughts.
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

    /// Drops the oldest question and its reply; returns false if only the latest question is left.
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

    /// Clears the cache: the next text is prefilled as a whole.
    fn reset(&mut self) {
        self.sequence = Sequence::default();
        self.text.clear();
    }
}
