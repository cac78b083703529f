//! `routes[]`: which requests go where, through what.

use settings::{Setting, Spanned};

use super::bounds::{RouteLimits, RouteTimeouts};
use crate::kinds::{FilterEntry, HandlerEntry};

/// A route: which requests it takes, their filters and their handler. `match` says which of several
/// routes comes first; their order here does not matter.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct RouteSettings {
    /// Its name in logs, metrics and `explain`; by default its path.
    #[setting(example = "catalog")]
    pub name: Option<Spanned<String>>,
    /// Which requests it takes; all of them without it.
    #[setting(default = {})]
    pub r#match: Spanned<router::Match>,
    /// What requests go through, in this order, and responses backwards.
    #[setting(default = [])]
    pub filters: Vec<FilterEntry>,
    /// The handler that responds.
    pub handler: HandlerEntry,
    /// Overrides of the listener's limits for this route.
    #[setting(default = {})]
    pub limits: RouteLimits,
    /// Overrides of the listener's time-outs for this route.
    #[setting(default = {})]
    pub timeouts: RouteTimeouts,
}

/// Filters applied before each route's own filters.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct DefaultsSettings {
    /// The filters, in this order.
    #[setting(default = [])]
    pub filters: Vec<FilterEntry>,
}
