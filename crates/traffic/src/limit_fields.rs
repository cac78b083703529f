//! `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10).

use message::{BegunField, Headers};
use settings::{Node, Reader};
use wire::Known;

/// Longest name; it is sent with every response.
const NAME_BYTES_MAX: usize = 64;

/// Reports a name that cannot be a string of a structured field (RFC 9651 3.3.3) without escapes.
pub(crate) fn check_name(name: &str, node: &Node, reader: &mut Reader<'_>) {
    let fits = |byte: u8| (byte == b' ' || byte.is_ascii_graphic()) && !b"\"\\".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) {
        let why = format!("the name is 1 to {NAME_BYTES_MAX} ASCII characters without quotes");
        reader.error(node.get("name").unwrap_or(node).span, why);
    }
}

/// The remaining requests of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remaining {
    /// Requests that would be allowed now.
    pub(crate) requests: u32,
    /// Time until all are available again.
    pub(crate) full_in_s: u32,
}

/// The fields of one limit.
pub(crate) struct LimitFields {
    name: String,
    policy: BegunField,
    remaining: BegunField,
}

impl LimitFields {
    /// Fields for `requests` within a time.
    pub(crate) fn new(name: &str, requests: u32, window_s: u64) -> LimitFields {
        let policy = format!("\"{name}\";q={requests};w={window_s}");
        LimitFields {
            name: name.to_owned(),
            policy: BegunField::new(Known::RateLimitPolicy, &policy),
            remaining: BegunField::new(Known::RateLimit, &format!("\"{name}\";r=")),
        }
    }

    /// Adds the fields to a response.
    pub(crate) fn write(&self, remaining: Remaining, headers: &mut Headers) {
        headers.append_begun(&self.policy, |_| ());
        self.write_remaining(remaining, headers);
    }

    /// Adds the fields with another policy: that of one consumer.
    pub(crate) fn write_own(
        &self,
        (requests, window_s): (u32, u64),
        remaining: Remaining,
        headers: &mut Headers,
    ) {
        let policy = format!("\"{}\";q={requests};w={window_s}", self.name);
        headers.append(Known::RateLimitPolicy, policy);
        self.write_remaining(remaining, headers);
    }

    fn write_remaining(&self, remaining: Remaining, headers: &mut Headers) {
        headers.append_begun(&self.remaining, |value| {
            let mut number = itoa::Buffer::new();
            value.extend_from_slice(number.format(remaining.requests).as_bytes());
            value.extend_from_slice(b";t=");
            value.extend_from_slice(number.format(remaining.full_in_s).as_bytes());
        });
    }
}
