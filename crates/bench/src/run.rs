//! One run: which servers, which cases, how long, and then all of it in alternating rounds.
//!
//! Owns the options, the schedule made of them, and the doing. Promises that the time is told
//! before anything is loaded and kept whatever the servers do, by fewer rounds of every case where
//! the machine is slower than thought; that only addresses of this machine
//! are loaded unless the user says that another one is theirs; that servers take turns (A B B A);
//! and that a run which is stopped returns what it has and leaves no process.
//! Never decides what a figure means: that is `report`.

mod begun;
mod external_target;
mod idle;
mod measure;
mod options;
mod program;
mod record;
mod schedule;
mod system_calls;
mod work;

pub use options::{ExternalTarget, Options};
pub(crate) use schedule::said;
pub use schedule::{Refused, Schedule, plan};
