//! Why a command failed.

use std::fmt;
use std::io;

use crate::limits::DETAIL_BYTES;

/// A command that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisError {
    /// The server cannot be reached, or rejected the connection; nothing was executed.
    Unreachable(String),
    /// The connection ended, or no reply came in time; the command may have been executed.
    Lost(String),
    /// The server replied with an error; the command was not executed.
    Refused(String),
}

impl RedisError {
    pub(crate) fn unreachable(address: &str, why: &impl fmt::Display) -> RedisError {
        RedisError::Unreachable(shortened(format!("{address}: {why}")))
    }

    pub(crate) fn lost(address: &str, why: &impl fmt::Display) -> RedisError {
        RedisError::Lost(shortened(format!("{address}: {why}")))
    }

    pub(crate) fn refused(address: &str, why: &str) -> RedisError {
        RedisError::Refused(shortened(format!("{address}: {why}")))
    }
}

fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(DETAIL_BYTES));
    text
}

impl fmt::Display for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedisError::Unreachable(why) | RedisError::Lost(why) | RedisError::Refused(why) => {
                f.write_str(why)
            }
        }
    }
}

impl std::error::Error for RedisError {}

impl From<RedisError> for io::Error {
    fn from(error: RedisError) -> io::Error {
        io::Error::other(error)
    }
}
