//! The commands of the interactive prompt.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    Help,
    Clear,
    Stats,
    Quit,
}

pub enum Input<'a> {
    Nothing,
    Message(&'a str),
    Command(Command),
    Unknown(&'a str),
}

#[rustfmt::skip]
const COMMANDS: &[(&str, Command, &str)] = &[
    ("/help",  Command::Help,  "show this help"),
    ("/clear", Command::Clear, "start a new conversation"),
    ("/stats", Command::Stats, "tokens, speed and memory so far"),
    ("/quit",  Command::Quit,  "quit (also /exit, Ctrl-D, and Ctrl-C at the prompt)"),
    ("/exit",  Command::Quit,  ""),
];

pub fn parse(line: &str) -> Input<'_> {
    let line = line.trim();
    if line.is_empty() {
        return Input::Nothing;
    }
    if !line.starts_with('/') {
        return Input::Message(line);
    }
    let known = COMMANDS.iter().find(|(name, ..)| *name == line);
    known.map_or(Input::Unknown(line), |(_, command, _)| {
        Input::Command(*command)
    })
}

pub fn help() -> String {
    let told = COMMANDS.iter().filter(|(.., about)| !about.is_empty());
    let line = |(name, _, about): &(&str, Command, &str)| format!("  {name:<8}{about}\n");
    told.map(line).collect::<String>() + "  Ctrl-C  stop a reply\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        assert!(matches!(parse("  \n"), Input::Nothing));
        assert!(matches!(
            parse(" Hello /help\n"),
            Input::Message("Hello /help")
        ));
        assert!(matches!(parse("/exit\n"), Input::Command(Command::Quit)));
        assert!(matches!(parse("/cls"), Input::Unknown("/cls")));
        assert!(help().contains("/clear") && !help().contains("  /exit"));
    }
}
