//! Why a certificate was not issued.

use std::fmt;
use std::io;
use std::time::Duration;

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum IssueError {
    /// Another process with the same directory is obtaining it.
    InProgress,
    /// The certificate authority could not be reached, failed or rejected the nonces of several
    /// requests: nothing was counted against a limit.
    Unreachable(String),
    /// The certificate authority, a challenge or the storage failed.
    Failed(String),
    /// The certificate authority asks for a pause.
    RateLimited(String, Duration),
}

impl fmt::Display for IssueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IssueError::InProgress => f.write_str("another process is obtaining the certificate"),
            IssueError::Unreachable(why)
            | IssueError::Failed(why)
            | IssueError::RateLimited(why, _) => f.write_str(why),
        }
    }
}

impl From<instant_acme::Error> for IssueError {
    fn from(error: instant_acme::Error) -> Self {
        let is_transient = |problem: &instant_acme::Problem| {
            let kind = problem.r#type.as_deref().and_then(|kind| kind.rsplit(':').next());
            matches!(kind, Some("badNonce" | "serverInternal"))
        };
        match error {
            instant_acme::Error::Api(problem) if is_transient(&problem) => {
                IssueError::Unreachable(problem.to_string())
            }
            instant_acme::Error::Other(_) | instant_acme::Error::Json(_) => {
                IssueError::Unreachable(error.to_string())
            }
            other => IssueError::Failed(other.to_string()),
        }
    }
}

impl From<io::Error> for IssueError {
    fn from(error: io::Error) -> Self {
        IssueError::Failed(error.to_string())
    }
}
