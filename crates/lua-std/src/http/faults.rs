//! Reasons of failed exchanges, as scripts compare them.

use message::{Fault, FaultKind};

use lua_vm::errno;

/// The text of a fault: that of its system error, if it has one.
pub fn reason(fault: &Fault) -> String {
    let number = match fault.kind {
        FaultKind::ConnectionRefused => libc::ECONNREFUSED,
        FaultKind::ConnectionTimeout
        | FaultKind::ConnectionReadTimeout
        | FaultKind::ConnectionWriteTimeout
        | FaultKind::ResponseTimeout
        | FaultKind::BodyTimeout => libc::ETIMEDOUT,
        FaultKind::DestinationUnroutable => libc::EHOSTUNREACH,
        FaultKind::ConnectionTerminated | FaultKind::ResponseIncomplete => {
            return errno::EOF.to_owned();
        }
        FaultKind::ClientGone => return errno::CLOSED.to_owned(),
        FaultKind::DnsError => return errno::RESOLVE.to_owned(),
        _ if fault.detail.is_empty() => return fault.slug().replace('_', " "),
        _ => return fault.detail.clone().into_owned(),
    };
    errno::of_number(number)
}
