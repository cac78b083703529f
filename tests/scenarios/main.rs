//! Scenarios over real sockets: client bytes, upstream bytes, what must be seen. One page each.

mod chunked_request;
mod expect_continue;
mod head_method;
mod http10;
mod keep_alive;
mod no_body_statuses;
mod pipelining;
mod respond;
mod setup;
mod targets;
