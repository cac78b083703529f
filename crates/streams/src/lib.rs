//! Streams (layer 4): connections that are passed to an upstream byte by byte, and datagrams.
//!
//! Owns what happens between accepting a connection and its end: the PROXY header, the choice of an
//! upstream by the ClientHello, TLS, limits per client, and what is counted and logged.
//! The server is chosen by `upstream`, and the bytes are carried by the tunnel of `http-client`. A
//! stream finishes under the plan that it began with; the listening socket belongs to `server`.

mod client_stream;
mod clients;
mod datagrams;
mod metrics;
mod service;
mod stream_plan;

pub use datagrams::Sessions;
pub use service::StreamService;
pub use stream_plan::{HelloChoice, StreamPlan, UpstreamChoice};
