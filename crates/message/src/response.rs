//! One response on its way to the client.

use wire::Known;

use crate::duplex::Takeover;
use crate::{Body, Fault, Headers};

/// What comes of a request: a response or a fault that will become one.
pub type HandlerResult = Result<Response, Fault>;

/// Status, fields and content. Framing fields (Content-Length, Transfer-Encoding, Connection) are
/// the serving loop's: what a handler sets there is ignored, except the length of a HEAD response.
#[derive(Default)]
pub struct Response {
    pub status: u16,
    pub headers: Headers,
    pub body: Body,
    /// With status 101: what uses the connection once the head is sent (extension point 3).
    pub takeover: Option<Takeover>,
    /// What an HTTP/1.1 client is told with the status instead of the registered phrase. It means
    /// nothing (RFC 9112 4), and some applications say it all the same.
    pub reason: Option<Box<[u8]>>,
    /// Closes the connection after the response (RFC 9112 9.6).
    pub close: bool,
}

impl Response {
    pub fn new(status: u16) -> Response {
        Response { status, ..Response::default() }
    }

    pub fn with_body(status: u16, content_type: &str, body: impl Into<Body>) -> Response {
        let mut response = Response::new(status);
        response.headers.append(Known::ContentType, content_type);
        response.body = body.into();
        response
    }

    pub fn text(status: u16, body: impl Into<Body>) -> Response {
        Response::with_body(status, "text/plain; charset=utf-8", body)
    }

    pub fn json(status: u16, body: impl Into<Body>) -> Response {
        Response::with_body(status, "application/json", body)
    }
}
