//! The benchmark of Tidegate and other servers: load generator, servers, statistics, reports.
//!
//! Shares no code with the server but the frames of HTTP/2, so that the two do not share errors.
//! The floor servers do the minimum that a client accepts as a response: `floor ÷ tidegate` is the
//! share of the cost that the kernel causes.
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
