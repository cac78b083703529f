//! The credentials that guarded gateways ask for, and those that the clients have.

use super::{KEY, KEY_FIELD};

/// How a guarded gateway authenticates its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// By an API key, below a rate limit.
    Key,
    /// The same, and headers of requests and responses are set and removed.
    KeyAndHeaders,
    /// By name and password, below a rate limit.
    Password,
    /// By a JWT, the same one in every request.
    Token,
}

pub(super) const USER: &str = "bench";
pub(super) const PASSWORD: &str = "sesame";
/// The hash of the password by bcrypt, at its lowest cost: one verification is remembered.
pub(super) const PASSWORD_HASH: &str =
    "$2y$04$ry.yb/gg5EeymKWaWk.7Suz.8R9PwrFdpwcl/XW24EGFRt/XODclK";
/// The key of the token's HMAC.
pub(super) const SECRET: &str = "bench-secret-0123456789abcdef-0123456789abcdef";
/// `{"alg":"HS256","typ":"JWT"}`, `{"sub":"bench","exp":4102444800}` and the HMAC.
const TOKEN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
                     eyJzdWIiOiJiZW5jaCIsImV4cCI6NDEwMjQ0NDgwMH0.\
                     AHwk7jSsP-iGlm2TcHnRhFSroaeCpCtd9HB1A0YJz80";

impl Guard {
    pub(super) const ALL: [Guard; 4] =
        [Guard::Key, Guard::KeyAndHeaders, Guard::Password, Guard::Token];

    /// The header field with a client's credential.
    pub fn field(self) -> String {
        match self {
            Guard::Key | Guard::KeyAndHeaders => format!("{KEY_FIELD}: {KEY}\r\n"),
            // bench:sesame
            Guard::Password => "Authorization: Basic YmVuY2g6c2VzYW1l\r\n".to_owned(),
            Guard::Token => format!("Authorization: Bearer {TOKEN}\r\n"),
        }
    }

    pub(super) fn role(self) -> &'static str {
        match self {
            Guard::Key => "gateway with a key and a rate limit",
            Guard::KeyAndHeaders => "gateway with a key, a rate limit and changed headers",
            Guard::Password => "gateway with a password and a rate limit",
            Guard::Token => "gateway with a token",
        }
    }
}
