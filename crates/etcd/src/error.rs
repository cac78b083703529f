//! Why a call failed: the status of etcd, or that of a fault on the way there.

use std::fmt;

use message::{Fault, FaultKind, Retry};
use wire::grpc::Code;

use crate::limits::DETAIL_BYTES;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdError {
    pub code: Code,
    /// etcd's own words, or what failed on the way there.
    pub message: String,
    /// True if etcd has certainly not executed the request.
    pub is_unsent: bool,
}

impl EtcdError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> EtcdError {
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(DETAIL_BYTES));
        EtcdError { code, message, is_unsent: false }
    }

    /// A response that is not one of etcd.
    pub(crate) fn malformed(why: &str) -> EtcdError {
        EtcdError::new(Code::Internal, format!("malformed response: {why}"))
    }

    pub(crate) fn late() -> EtcdError {
        EtcdError::new(Code::DeadlineExceeded, "no response within the time-out")
    }

    /// A lease that etcd does not have any more.
    pub fn lease_ended(id: i64) -> EtcdError {
        EtcdError::new(Code::NotFound, format!("lease {id} has ended"))
    }

    /// True if the lease of a request has ended.
    pub fn is_lease_ended(&self) -> bool {
        self.code == Code::NotFound && self.message.contains("lease")
    }

    /// Something is larger than its limit.
    pub fn too_large(what: &str) -> EtcdError {
        EtcdError::new(Code::ResourceExhausted, format!("{what} are larger than their limit"))
    }

    /// Revisions that are needed do not exist any more.
    pub fn compacted() -> EtcdError {
        EtcdError::new(Code::OutOfRange, "changes were compacted before they were received")
    }

    /// True if etcd rejected the token, or that there is none: a new one can be requested.
    pub(crate) fn wants_token(&self) -> bool {
        self.code == Code::Unauthenticated || is_about_token(&self.message)
    }

    /// True for a failure that may end by itself.
    pub fn is_passing(&self) -> bool {
        self.blames_member() || matches!(self.code, Code::ResourceExhausted | Code::Unknown)
    }

    /// True if another member may do better.
    pub(crate) fn blames_member(&self) -> bool {
        matches!(self.code, Code::Unavailable | Code::DeadlineExceeded | Code::Internal)
    }
}

/// True for etcd's words for a token that it does not accept, that is older than a change of
/// permissions, or that is missing because users were enabled after the client had begun.
pub(crate) fn is_about_token(message: &str) -> bool {
    ["auth token", "auth store is old", "user name is empty"]
        .iter()
        .any(|words| message.contains(words))
}

impl fmt::Display for EtcdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code.slug())
    }
}

impl std::error::Error for EtcdError {}

impl From<Fault> for EtcdError {
    fn from(fault: Fault) -> EtcdError {
        let code = match fault.kind {
            FaultKind::ResponseTimeout
            | FaultKind::ConnectionReadTimeout
            | FaultKind::ConnectionWriteTimeout => Code::DeadlineExceeded,
            _ => Code::Unavailable,
        };
        let is_unsent = fault.retry == Retry::Unsent;
        EtcdError { is_unsent, ..EtcdError::new(code, fault.detail) }
    }
}
