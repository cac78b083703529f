//! Why an exchange failed, as scripts compare reasons.

use exchange::Fault;

use lua_vm::errno;

/// The text of a fault: that of the system's error it stands for, where there is one.
pub fn reason(fault: &Fault) -> String {
    let number = match fault.slug {
        "connection_refused" => libc::ECONNREFUSED,
        "connection_timeout"
        | "connection_read_timeout"
        | "connection_write_timeout"
        | "http_response_timeout"
        | "body_timeout" => libc::ETIMEDOUT,
        "destination_ip_unroutable" => libc::EHOSTUNREACH,
        "connection_terminated" | "http_response_incomplete" => return errno::EOF.to_owned(),
        "client_gone" => return errno::CLOSED.to_owned(),
        slug if fault.detail.is_empty() => return slug.replace('_', " "),
        _ => return fault.detail.clone().into_owned(),
    };
    errno::of_number(number)
}
