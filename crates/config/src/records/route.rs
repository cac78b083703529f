//! `routes[]`: which requests go where, through what.

use settings::{Setting, Spanned};

use super::bounds::{RouteLimits, RouteTimeouts};
use crate::kinds::{FilterEntry, HandlerEntry};

/// Which requests go where, through what. Which of several comes first
/// is said under `match`, not by where they stand.
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
    /// What answers.
    pub handler: HandlerEntry,
    /// What it limits otherwise than its listener.
    #[setting(default = {})]
    pub limits: RouteLimits,
    /// How long it waits otherwise than its listener.
    #[setting(default = {})]
    pub timeouts: RouteTimeouts,
}

/// What goes before every route's own.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct DefaultsSettings {
    /// Filters that every request of a route goes through first.
    #[setting(default = [])]
    pub filters: Vec<FilterEntry>,
}
