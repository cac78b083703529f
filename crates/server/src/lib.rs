//! Puts plans into use: start, reload, drain, and the control thread that does it.
//!
//! ```text
//!  control thread                                    worker threads
//!  source ▶ plan ▶ sockets ──ThreadCommand::Serve──────────▶ instance ▶ services ▶ accept loops
//!  signals, file watch, admin API, health checks     ◀──────────── done ────────────┘
//! ```
//!
//! A plan is put into use as a whole or not at all. A socket that two successive plans name is
//! never closed. A reload cuts off nothing that runs.

mod accept;
mod admin_listener;
mod admin_sockets;
mod api;
mod app_processes;
mod application;
mod balance;
mod caches;
mod certificates;
mod changes;
mod circuit_breakers;
mod config_source;
mod connection_limiter;
mod control;
mod descriptors;
mod etcd_address;
mod etcd_canary;
mod etcd_change;
mod etcd_documents;
mod etcd_report;
mod etcd_source;
mod etcd_sync;
mod etcd_tickets;
mod explain;
mod fleet_nodes;
mod history;
mod instance;
mod listeners;
mod logs;
mod lua_programs;
mod options;
mod purges;
mod raw_listeners;
mod reload_result;
mod run;
mod send;
mod signals;
mod slashes;
mod spec;
mod supervise;
mod upstreams;
mod watch;
mod worker;
mod worker_process;
mod worker_threads;

pub use admin_sockets::admin_socket_dir;
pub use application::{APPLICATION, ListenerSource, RunSpec, run_application};
pub use apps::PROFILE_TOKEN_MIN;
pub use changes::changes;
pub use etcd_address::{EtcdAddress, hostname, node_name};
pub use etcd_canary::Canary;
pub use etcd_change::{DocumentsChange, REQUEST_BYTES, StoredDocuments};
pub use etcd_documents::Documents;
pub use etcd_source::{EtcdOptions, EtcdSource};
pub use explain::explain;
pub use fleet_nodes::read_report;
pub use options::{Bound, Failure, OnReady, Options};
pub use run::run;
pub use spec::{PassedDescriptor, Role, VARIABLE as WORKER_VARIABLE, WorkerSpec, check_version};
pub use supervise::{DevReload, DevWatch, GroupEvent, OnGroupEvent, Policy, Stats};
pub use worker_process::{
    Application, HostedApplication, ReadinessReceiver, ReadinessSender, readiness_channel,
    run_worker,
};
