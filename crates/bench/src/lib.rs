//! What the floor servers share: a bare epoll set.
//!
//! Owns the yardstick, not the product: nothing here is used by the server, and nothing of the
//! server is used here. A floor does the least work that still answers the client, so that
//! `floor ÷ ours` says how much of our cost is ours and how much is the kernel's.
#![allow(
    clippy::disallowed_types,
    reason = "bench is outside the rule that only net opens sockets"
)]

pub(crate) mod cores;
pub mod cpu;
pub mod epoll;
pub mod floor;
pub mod interrupt;
pub mod live;
pub mod load;
pub mod machine;
pub mod peers;
pub mod report;
pub mod run;
pub mod scenarios;
pub mod stats;
