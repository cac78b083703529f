//! Limits and quotas that several servers share through Redis.
//!
//! A request is decided on its server alone. A task of the control thread, [`Settlement`], sends in
//! batches what this server has used and receives what all have. Promises that no request waits for
//! Redis, that a server without Redis allows its share, and that a batch has a bounded size. Knows
//! nothing about the limits except what [`Settled`] says.

mod batches;
mod register;
mod scripts;
mod settlement;
mod sharing;

pub(crate) use batches::BatchSender;
pub use register::SharedLimits;
pub(crate) use register::{Settled, SettledKeys};
pub(crate) use scripts::{QuotaReport, QuotaTotals, RateReport, RateTotals};
pub use settlement::Settlement;
pub(crate) use sharing::{ONE, Sharing};
