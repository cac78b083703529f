//! The handler `upstream`: balancing, health, retries.
//!
//! Owns which server gets a request, what is known of servers, and whether a failed request is
//! tried again; what goes over a connection is `exchange::client`'s. State is keyed by the
//! upstream's name and outlives Plans. Wiring: hold [`Upstreams::of`] the process's shared state,
//! call [`Upstreams::apply`] with every new Plan before its workers build their handlers, offer
//! [`KIND`] to the configuration, and run [`control::run`] on the control thread.

mod balance;
mod budget;
mod cluster;
pub mod control;
mod handler;
mod limits;
mod local;
mod max_forwards;
mod member;
mod replay;
mod ring;
mod settings;
mod status;
mod upstreams;
mod view;
mod worker_rng;

#[cfg(test)]
mod tests;

pub use cluster::Cluster;
pub use handler::{KIND, handler};
pub use member::State;
pub use settings::{
    Balance, EjectionSettings, HealthSettings, HostSettings, KeepaliveSettings, RetrySettings,
    ServerSettings, StatusRange, TimeoutSettings, UpstreamSettings,
};
pub use status::{ServerStatus, UpstreamStatus};
pub use upstreams::Upstreams;
