//! Colours: only on a terminal, and never if `NO_COLOR` is set.

use std::io::IsTerminal;

/// Whether bold and colours may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Coloured,
}

impl Style {
    pub(crate) fn of_stdout() -> Style {
        Style::of(&std::io::stdout())
    }

    pub(crate) fn of_stderr() -> Style {
        Style::of(&std::io::stderr())
    }

    fn of(stream: &impl IsTerminal) -> Style {
        let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if stream.is_terminal() && !is_refused && !is_dumb { Style::Coloured } else { Style::Plain }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}
