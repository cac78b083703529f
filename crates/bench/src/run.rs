//! One run: servers, cases and duration, measured in alternating rounds.
//!
//! Owns the options, the schedule and its execution. Promises that the duration is printed before
//! any load and observed, by fewer rounds of every case where the machine is slower than expected;
//! that only addresses of this machine are loaded unless the user confirms another one; that
//! servers alternate (A B B A); and that a run which is stopped returns its results so far and
//! leaves no process. Never interprets a figure: that is `report`.

mod execution;
mod external_target;
mod idle;
mod measure;
mod metadata;
mod options;
mod program;
mod record;
mod schedule;
mod seventy_percent;
mod system_calls;

pub use options::{ExternalTarget, Options};
pub(crate) use schedule::said;
pub use schedule::{Refused, Schedule, plan};
