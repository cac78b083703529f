//! What the driver of HTTP/2 promises, with the protocol's own client and with frames that no
//! honest client sends.

mod client;
mod floods;
mod limits;
mod messages;
mod priorities;
mod tunnel;
