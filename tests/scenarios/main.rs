//! Scenarios over real sockets: client bytes, upstream bytes, what must be seen. One page each.

mod respond;
