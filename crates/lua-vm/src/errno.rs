//! Error texts that functions return, as scripts compare them.
//!
//! An error of the system is its text and number, `Connection refused (111)`; our own errors have
//! numbers above 10000, which Silly defines. Promises that an error has one text wherever it comes
//! from.

use std::io;

/// Errors of our own.
pub const RESOLVE: &str = "Address resolution failed (10000)";
pub const NOSOCKET: &str = "No free socket (10001)";
pub const CLOSING: &str = "Socket is closing (10002)";
pub const CLOSED: &str = "Socket is closed (10003)";
pub const EOF: &str = "End of file (10004)";
pub const TLS: &str = "TLS error (10005)";

/// Names of system errors that `silly.errno` knows.
pub const SYSTEM: &[(&str, i32)] = &[
    ("INTR", libc::EINTR),
    ("ACCES", libc::EACCES),
    ("BADF", libc::EBADF),
    ("FAULT", libc::EFAULT),
    ("INVAL", libc::EINVAL),
    ("MFILE", libc::EMFILE),
    ("NFILE", libc::ENFILE),
    ("NOMEM", libc::ENOMEM),
    ("NOBUFS", libc::ENOBUFS),
    ("NOTSOCK", libc::ENOTSOCK),
    ("OPNOTSUPP", libc::EOPNOTSUPP),
    ("AFNOSUPPORT", libc::EAFNOSUPPORT),
    ("PROTONOSUPPORT", libc::EPROTONOSUPPORT),
    ("ADDRINUSE", libc::EADDRINUSE),
    ("ADDRNOTAVAIL", libc::EADDRNOTAVAIL),
    ("NETDOWN", libc::ENETDOWN),
    ("NETUNREACH", libc::ENETUNREACH),
    ("NETRESET", libc::ENETRESET),
    ("HOSTUNREACH", libc::EHOSTUNREACH),
    ("CONNABORTED", libc::ECONNABORTED),
    ("CONNRESET", libc::ECONNRESET),
    ("CONNREFUSED", libc::ECONNREFUSED),
    ("TIMEDOUT", libc::ETIMEDOUT),
    ("ISCONN", libc::EISCONN),
    ("NOTCONN", libc::ENOTCONN),
    ("INPROGRESS", libc::EINPROGRESS),
    ("ALREADY", libc::EALREADY),
    ("AGAIN", libc::EAGAIN),
    ("WOULDBLOCK", libc::EWOULDBLOCK),
    ("PIPE", libc::EPIPE),
    ("DESTADDRREQ", libc::EDESTADDRREQ),
    ("MSGSIZE", libc::EMSGSIZE),
    ("PROTOTYPE", libc::EPROTOTYPE),
    ("NOPROTOOPT", libc::ENOPROTOOPT),
    ("EXIST", libc::EEXIST),
    ("NOENT", libc::ENOENT),
    ("PERM", libc::EPERM),
];

/// The text of a system error number.
pub fn of_number(number: i32) -> String {
    let text = io::Error::from_raw_os_error(number).to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    format!("{words} ({number})")
}

/// The text of an I/O error.
pub fn of_error(error: &io::Error) -> String {
    match (error.raw_os_error(), error.kind()) {
        (Some(number), _) => of_number(number),
        _ if net::tls::is_tls_error(error) => TLS.to_owned(),
        (None, io::ErrorKind::UnexpectedEof) => EOF.to_owned(),
        (None, io::ErrorKind::TimedOut) => of_number(libc::ETIMEDOUT),
        (None, io::ErrorKind::AddrInUse) => of_number(libc::EADDRINUSE),
        (None, _) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{of_error, of_number};

    #[test]
    fn a_reason_is_words_and_a_number() {
        assert_eq!(of_number(libc::ECONNREFUSED), "Connection refused (111)");
        let error = std::io::Error::from_raw_os_error(libc::ECONNRESET);
        assert_eq!(of_error(&error), "Connection reset by peer (104)");
    }
}
