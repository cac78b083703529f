//! `routes[]`: which requests go where, through what.

use settings::{Setting, Spanned};

use super::bounds::{RouteLimits, RouteTimeouts};
use crate::kinds::{FilterEntry, HandlerEntry};

/// A route: which requests it takes, their filters and their handler. If several match, `match`
/// decides which one applies; their order here rarely matters.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct RouteSettings {
    /// Its name in logs, metrics and `explain`; by default its path.
    #[setting(example = "catalog")]
    pub name: Option<Spanned<String>>,
    /// Which requests it matches; all of them unless set.
    #[setting(default = {})]
    pub r#match: Spanned<router::Match>,
    /// The filters. Requests pass them in this order, responses in reverse order.
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
