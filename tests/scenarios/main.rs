//! Scenarios over real sockets: client bytes, upstream bytes, what must be seen. One page each.

mod addresses;
mod chunked_request;
mod date;
mod descriptors;
mod drain;
mod expect_continue;
mod forwarded;
mod head_method;
mod hop_by_hop;
mod http10;
mod keep_alive;
mod limits;
mod load;
mod many_idle;
mod no_body_statuses;
mod pipelining;
mod reload;
mod respond;
mod setup;
mod slow_client;
mod smuggling;
mod targets;
mod timeouts;
mod tunnel;
mod upstream;
mod vanishing_client;
