//! Chat templates: Jinja templates that render a conversation in the format a model was trained on.

use crate::error::{Error, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{context, Environment, ErrorKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
    Assistant,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub content: String,
}

/// ChatML, for models that have its tokens but no template.
pub const CHATML: &str = "\
{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}\
{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

#[derive(Debug)]
pub struct Template {
    environment: Environment<'static>,
    begin: String,
    end: String,
    variables: BTreeMap<String, Value>,
}

const NAME: &str = "chat template";

impl Template {
    /// `begin` and `end` are the template's `bos_token` and `eos_token`.
    pub fn new(source: &str, begin: &str, end: &str) -> Result<Self> {
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(error)?;
        let mut environment = Environment::new();
        environment.set_syntax(syntax);
        // Templates are written for Python's Jinja: they call Python string and list methods, and these helpers.
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| {
            Err::<String, _>(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", |format: String| {
            let now = jiff::Zoned::now();
            jiff::fmt::strtime::format(format, &now)
                .map_err(|e| minijinja::Error::new(ErrorKind::InvalidOperation, e.to_string()))
        });
        let source = source.to_string();
        environment
            .add_template_owned(NAME, source)
            .map_err(error)?;
        Ok(Self {
            environment,
            begin: begin.to_string(),
            end: end.to_string(),
            variables: BTreeMap::new(),
        })
    }

    /// Sets a variable of the template, for example `enable_thinking`, to JSON or else to a string.
    pub fn set(&mut self, name: &str, value: &str) {
        let json = serde_json::from_str::<serde_json::Value>(value);
        let value = json.map_or_else(|_| Value::from(value), |json| Value::from(Serde(json)));
        self.variables.insert(name.to_string(), value);
    }

    /// Renders the conversation, up to where the assistant continues.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        let template = self.environment.get_template(NAME).map_err(error)?;
        let values = context! {
            messages => Serde(messages),
            add_generation_prompt => true,
            bos_token => self.begin.as_str(),
            eos_token => self.end.as_str(),
            ..Value::from(self.variables.clone()),
        };
        template.render(values).map_err(error)
    }
}

fn error(e: minijinja::Error) -> Error {
    Error::Template {
        reason: e.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str) -> Result<String> {
        let messages = [(Role::System, "Be brief."), (Role::User, " Hi ")];
        let messages = messages.map(|(role, content)| Message {
            role,
            content: content.to_string(),
        });
        Template::new(source, "<s>", "</s>")?.render(&messages)
    }

    #[test]
    fn chatml() -> Result<()> {
        let expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n";
        assert_eq!(render(CHATML)?, expected);
        Ok(())
    }

    #[test]
    fn what_templates_of_python_use_is_there() -> Result<()> {
        for (source, expected) in [
            ("{{ bos_token }}{{ messages[1]['content'].strip() }}{{ eos_token }}", "<s>Hi</s>"),
            ("{%- set ns = namespace(n=0) -%}{%- for m in messages -%}{%- set ns.n = ns.n + 1 -%}{%- endfor -%}{{ ns.n }}", "2"),
            ("{% for m in messages[::-1] %}{{ loop.index0 }}{{ m.role }}{% break %}{% endfor %}", "0user"),
            ("{{ messages[0].content.split(' ')[-1] }}{{ messages[0] | tojson | length > 9 }}", "brief.True"),
            ("{% if tools is defined and tools %}tools{% endif %}{{ strftime_now('%Y') | length }}", "4"),
            ("{% if messages[0].content is string and messages[0].role == 'system' %}\n  yes\n{% endif %}\n", "  yes\n"),
        ] {
            assert_eq!(render(source)?, expected, "{source}");
        }
        Ok(())
    }

    #[test]
    fn variables_are_json_or_texts() -> Result<()> {
        let source = "{% if not enable_thinking %}{{ tone }}{{ messages | length }}{% endif %}";
        let mut template = Template::new(source, "", "")?;
        template.set("enable_thinking", "false");
        template.set("tone", "formal");
        assert_eq!(template.render(&[])?, "formal0");
        Ok(())
    }

    #[test]
    fn what_a_template_refuses_and_what_is_wrong_in_it_is_told() {
        let told = |source, part| {
            let message = render(source).err().map(|e| e.to_string());
            assert!(
                message.as_ref().is_some_and(|m| m.contains(part)),
                "{message:?}"
            );
        };
        told(
            "{{ raise_exception('System role not supported') }}",
            "System role not supported",
        );
        told("{% for %}", "chat template");
        told("{{ strftime_now('%') }}", "chat template");
    }
}
