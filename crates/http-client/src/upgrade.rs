//! The requirements of an upgrade on the connection.

use message::Request;
use wire::Known;

/// The upgrade that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    None,
    /// Over HTTP/2 it is an extended CONNECT (RFC 8441), if the server announces that.
    WebSocket,
    /// Only in HTTP/1.1; over HTTP/2 the request is sent without it (RFC 9110 7.8).
    Other,
}

impl Upgrade {
    /// The upgrade of this request.
    pub fn of(request: &Request) -> Upgrade {
        if !request.upgrade {
            Upgrade::None
        } else if request.headers.lists_token(Known::Upgrade, "websocket") {
            Upgrade::WebSocket
        } else {
            Upgrade::Other
        }
    }
}
