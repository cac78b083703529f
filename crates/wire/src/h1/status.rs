//! Status lines as constants, for every registered code (RFC 9110 15 and the IANA registry).
//!
//! Owns the reason phrases. The version is always HTTP/1.1, also for 1.0 clients (RFC 9110 6.2).

macro_rules! statuses {
    ($($code:literal $reason:literal,)*) => {
        /// The registered phrase of a status; empty for other codes.
        pub fn reason(status: u16) -> &'static str {
            match status {
                $($code => $reason,)*
                _ => "",
            }
        }

        /// The whole status line with its CRLF, for a registered status.
        #[inline]
        pub fn status_line(status: u16) -> Option<&'static [u8]> {
            match status {
                $($code => Some(concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n").as_bytes()),)*
                _ => None,
            }
        }
    };
}

statuses! {
    100 "Continue",
    101 "Switching Protocols",
    102 "Processing",
    103 "Early Hints",
    200 "OK",
    201 "Created",
    202 "Accepted",
    203 "Non-Authoritative Information",
    204 "No Content",
    205 "Reset Content",
    206 "Partial Content",
    207 "Multi-Status",
    208 "Already Reported",
    226 "IM Used",
    300 "Multiple Choices",
    301 "Moved Permanently",
    302 "Found",
    303 "See Other",
    304 "Not Modified",
    305 "Use Proxy",
    307 "Temporary Redirect",
    308 "Permanent Redirect",
    400 "Bad Request",
    401 "Unauthorized",
    402 "Payment Required",
    403 "Forbidden",
    404 "Not Found",
    405 "Method Not Allowed",
    406 "Not Acceptable",
    407 "Proxy Authentication Required",
    408 "Request Timeout",
    409 "Conflict",
    410 "Gone",
    411 "Length Required",
    412 "Precondition Failed",
    413 "Content Too Large",
    414 "URI Too Long",
    415 "Unsupported Media Type",
    416 "Range Not Satisfiable",
    417 "Expectation Failed",
    421 "Misdirected Request",
    422 "Unprocessable Content",
    423 "Locked",
    424 "Failed Dependency",
    425 "Too Early",
    426 "Upgrade Required",
    428 "Precondition Required",
    429 "Too Many Requests",
    431 "Request Header Fields Too Large",
    451 "Unavailable For Legal Reasons",
    500 "Internal Server Error",
    501 "Not Implemented",
    502 "Bad Gateway",
    503 "Service Unavailable",
    504 "Gateway Timeout",
    505 "HTTP Version Not Supported",
    506 "Variant Also Negotiates",
    507 "Insufficient Storage",
    508 "Loop Detected",
    510 "Not Extended",
    511 "Network Authentication Required",
}

/// Appends the status line of any code; an unregistered one gets an empty reason (RFC 9112 4).
#[inline]
pub fn write_status_line(status: u16, out: &mut Vec<u8>) {
    match status_line(status) {
        Some(line) => out.extend_from_slice(line),
        None => {
            out.extend_from_slice(b"HTTP/1.1 ");
            out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
            out.extend_from_slice(b" \r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::h1::{HeadLimits, parse_response, reason, status_line, write_status_line};

    #[test]
    fn every_line_is_a_status_line_of_its_code() {
        let mut registered = 0;
        for status in 100..600 {
            let mut out = Vec::new();
            write_status_line(status, &mut out);
            out.extend_from_slice(b"\r\n");
            let head = parse_response(&out, &HeadLimits::default(), &mut Vec::new(), false);
            let head = head.unwrap().unwrap();
            assert_eq!(head.status, status);
            assert_eq!(head.reason.of(&out), reason(status).as_bytes());
            registered += usize::from(status_line(status).is_some());
        }
        assert_eq!(registered, 61);
    }
}
