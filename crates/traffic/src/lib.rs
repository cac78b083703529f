//! The filters that decide how much traffic passes, and where it goes.
//!
//! Each file declares its settings, checks them, builds a plan from them, and implements the
//! filter. State that must outlive a plan is process-wide and keyed by the identity of its filter
//! ([`plugin::Shared`]). None owns a socket or takes an exclusive lock while a request runs, and
//! everything that grows with clients has a bound.

mod bandwidth;
mod circuit_breaker;
mod client_rate;
mod concurrency;
mod cost;
mod fault;
mod keyed_state;
mod limit_fields;
mod mirror;
mod mock;
mod quota;
mod rate_limit;
mod request_key;
mod share;
mod shared_limits;
mod split;

use plugin::FilterKind;

pub use circuit_breaker::{BreakerStatus, CircuitBreakers};
pub use client_rate::ClientRate;
pub use quota::{
    AmountKey, AmountQuota, AmountQuotaSettings, AmountUse, QuotaInfo, QuotaUse, Quotas,
};
pub use shared_limits::{Settlement, SharedLimits};

/// Every filter of this crate, by name.
pub static ALL: &[FilterKind] = &[
    bandwidth::KIND,
    circuit_breaker::KIND,
    concurrency::KIND,
    fault::KIND,
    mirror::KIND,
    mock::KIND,
    quota::KIND,
    rate_limit::KIND,
    split::KIND,
];
