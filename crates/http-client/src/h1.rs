//! One exchange over HTTP/1.1: writing the request and reading the response.

mod body;
mod exchange;
mod head;
mod send_request;
mod sender;
mod tunnel;

pub(crate) use exchange::ServerExchange;
pub use head::{Call, ClientOptions, HostField};
pub(crate) use head::{RequestFraming, write_head};
pub(crate) use send_request::poll_response;
pub use tunnel::tunnel;
