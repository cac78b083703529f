//! One exchange over HTTP/1.1: how a request is written and its response is read.

mod answer;
mod body;
mod head;
mod sender;
mod tunnel;

pub use answer::send_request;
pub use head::{Call, ClientOptions, HostField};
