//! One exchange over HTTP/1.1: how a request is written and its response is read.

mod body;
mod exchange;
mod head;
mod send_request;
mod sender;
mod tunnel;

pub use head::{Call, ClientOptions, HostField};
pub use send_request::send_request;
pub use tunnel::tunnel;
