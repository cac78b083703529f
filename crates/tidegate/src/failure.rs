//! How a command ends when it does not end well: one sentence first, on standard error, and an exit
//! code.

use std::io::Write;

/// Why a command ends early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The arguments or the configuration are wrong: exit code 2. A sentence, perhaps with lines of
    /// advice after it.
    Wrong(String),
    /// Every error of a configuration, rendered: exit code 2.
    Errors(String),
    /// Something went wrong on the way: exit code 1.
    Failed(String),
    /// A program ended with a code of its own; it has said why, if it wanted to.
    Exit(i32),
    /// Nobody reads what we print any more, as behind `| head -1`: nothing went wrong.
    Unread,
}

impl Failure {
    /// Says why, and gives the exit code.
    pub(crate) fn report(self) -> u8 {
        let (text, code) = match self {
            Failure::Wrong(text) => (format!("error: {text}"), 2),
            Failure::Errors(text) => (text, 2),
            Failure::Failed(text) => (format!("error: {text}"), 1),
            Failure::Exit(code) => return code as u8,
            Failure::Unread => return 0,
        };
        // Nobody is left to tell when standard error is closed as well.
        let _ = writeln!(std::io::stderr().lock(), "{}", text.trim_end());
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
