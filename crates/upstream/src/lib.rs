//! The handler `upstream`: balancing, health, retries, discovery.
//!
//! Owns the choice of a server, the health of servers, the sources that servers come from, and
//! retries; the connection itself belongs to `http_client`. State is keyed by the upstream's name
//! and outlives plans. Wiring: hold [`Upstreams::of`] the process's shared state, call
//! [`Upstreams::apply`] with every new plan before its workers build their handlers, register
//! [`KIND`] with the configuration, and run [`control::run`] on the control thread.

mod balance;
mod budget;
mod cluster;
pub mod control;
mod discover_settings;
mod discovered;
mod grpc;
mod handler;
mod health_history;
mod key_owner;
mod limits;
mod local;
mod max_forwards;
mod member;
mod proxy_header;
mod registrations;
mod replay;
mod ring;
mod server_address;
mod server_state;
mod settings;
mod status;
mod status_range;
mod stream;
mod traces;
mod upstream_plan;
mod upstreams;
mod view;
mod worker_rng;

#[cfg(test)]
mod tests;

pub use cluster::{Cluster, DiscoveryStatus};
pub use discover_settings::{
    ConsulSourceSettings, DiscoverSettings, DnsName, EtcdEndpoint, EtcdSourceSettings,
    FileSourceSettings, HttpSourceSettings, OnEmpty, RegistrationSettings,
};
pub use discovered::{DiscoveredServers, read_consul, read_entry, read_list, read_services};
pub use handler::{KIND, handler};
pub use health_history::HealthChange;
pub use limits::WEIGHT_MAX;
pub use member::{ServerChange, ServerState};
pub use registrations::{RegisteredServer, RegistrationError};
pub use server_address::{ServerAddress, ServerProtocol};
pub use settings::{
    Balance, EjectionSettings, HealthSettings, HostSettings, HttpProtocol, KeepaliveSettings,
    ProxyVersion, RetrySettings, ServerSettings, TimeoutSettings, UpstreamSettings,
};
pub use status::{ServerStatus, UpstreamStatus};
pub use status_range::StatusRange;
pub use stream::{DatagramServer, StreamUpstream};
pub use upstream_plan::UpstreamPlan;
pub use upstreams::Upstreams;
