//! Groups of worker processes: starting, monitoring, replacing and stopping them.

mod back_off;
mod control_channel;
mod current_preloader;
mod dev_watch;
mod group_context;
mod group_settings;
pub(crate) mod limits;
mod policy;
mod preloader;
mod preloader_message;
mod process_errors;
mod request_errors;
mod restart;
mod running_process;
mod stats;
mod worker_group;
mod worker_slot;

pub(crate) use control_channel::{ControlChannel, SupervisorCommand, WorkerMessage};
pub use dev_watch::DevWatch;
pub(crate) use group_context::WorkerSockets;
pub(crate) use group_settings::GroupSettings;
pub use group_settings::{GroupEvent, OnGroupEvent};
pub(crate) use limits::{REPORT_EVERY, SHUT_DOWN_WITHIN, WORKERS_MAX};
pub use policy::{DevReload, Policy};
pub(crate) use preloader::Preloader;
pub(crate) use restart::RestartReason;
pub(crate) use running_process::RunningProcess;
pub use stats::Stats;
pub(crate) use worker_group::WorkerGroup;
pub(crate) use worker_slot::WorkerSlot;

#[cfg(test)]
mod tests;
