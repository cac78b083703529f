//! `routes[]`: which requests go where, through what.

use settings::Spanned;

use super::bounds::{RouteLimits, RouteTimeouts};
use crate::kinds::{FilterEntry, HandlerEntry};

settings::record! {
    /// Which requests go where, through what. Which of several comes first
    /// is said under `match`, not by where they stand.
    pub struct RouteSettings {
        /// Its name in logs, metrics and `explain`; by default its path.
        pub name: Option<Spanned<String>> { example "catalog" },
        /// Which requests it takes; all of them without it.
        pub r#match: Spanned<router::Match> = {},
        /// What requests go through, in this order, and responses backwards.
        pub filters: Vec<FilterEntry> = [],
        /// What answers.
        pub handler: HandlerEntry,
        /// What it limits otherwise than its listener.
        pub limits: RouteLimits = {},
        /// How long it waits otherwise than its listener.
        pub timeouts: RouteTimeouts = {},
    }
}

settings::record! {
    /// What goes before every route's own.
    pub struct DefaultsSettings {
        /// Filters that every request of a route goes through first.
        pub filters: Vec<FilterEntry> = [],
    }
}
