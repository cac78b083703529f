//! Groups of worker processes: started, watched, replaced, ended.

mod back_off;
mod dev_watch;
mod group;
pub(crate) mod limits;
mod link;
mod policy;
mod running;
mod slot;
mod stats;
mod verdict;

pub(crate) use dev_watch::DevWatch;
pub(crate) use group::{Doors, Group, GroupSettings};
pub(crate) use limits::{REPORT_EVERY, SHUT_DOWN_WITHIN, WORKERS_MAX};
pub(crate) use link::{Link, Order, Word};
pub use policy::{DevReload, Policy};
pub(crate) use running::Running;
pub(crate) use slot::Slot;
pub use stats::Stats;
pub(crate) use verdict::Reason;

#[cfg(test)]
mod tests;
