//! Failures of commands: the message on standard error and the exit code.

use std::io::Write;

use crate::terminal::lines_for_terminal;

/// The reason for which a command ends early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The arguments or the configuration are wrong: exit code 2. A sentence, optionally followed
    /// by
    /// advice.
    Wrong(String),
    /// Every error of a configuration, rendered: exit code 2.
    Errors(String),
    /// The command failed while it ran: exit code 1.
    Failed(String),
    /// A program ended with its own exit code and printed its own message.
    Exit(i32),
    /// Standard output was closed, as by `| head -1`: no error.
    Unread,
}

impl Failure {
    /// The reason as text.
    pub(crate) fn into_text(self) -> String {
        match self {
            Failure::Wrong(text) | Failure::Errors(text) | Failure::Failed(text) => text,
            Failure::Exit(code) => format!("exit code {code}"),
            Failure::Unread => "standard output is closed".to_owned(),
        }
    }

    /// Prints the reason and returns the exit code.
    pub(crate) fn report(self) -> u8 {
        let (text, code) = match self {
            Failure::Wrong(text) => (format!("error: {text}"), 2),
            Failure::Errors(text) => (text, 2),
            Failure::Failed(text) => (format!("error: {text}"), 1),
            Failure::Exit(code) => return code as u8,
            Failure::Unread => return 0,
        };
        // With standard error closed too, the message cannot be printed.
        let _ = writeln!(std::io::stderr().lock(), "{}", lines_for_terminal(text.trim_end()));
        code
    }
}

impl From<server::Failure> for Failure {
    fn from(failure: server::Failure) -> Self {
        match failure {
            server::Failure::Configuration(errors) => Failure::Errors(errors),
            server::Failure::Start(why) => Failure::Failed(why),
        }
    }
}
