//! `routes[]`: which requests go where, through what.

use std::collections::BTreeMap;

use settings::{LogTemplate, Setting, Spanned};

use super::AccessFormatSetting;
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
    /// The lines of its requests in the access log, where they differ from `log.access`.
    pub log: Option<Spanned<RouteLogSettings>>,
}

/// The lines of one route in the access log.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct RouteLogSettings {
    /// Replaces the format of `log.access`.
    #[setting(example = "{client_ip} {status} {upstream_ms}")]
    pub format: Option<AccessFormatSetting>,
    /// Replaces the share of `log.access`: 0 logs failures only.
    #[setting(range = 0..=1, example = 0.01)]
    pub sample: Option<f64>,
    /// Further members of lines in JSON: their names, and texts with the variables of formats. A
    /// text that is empty is left out.
    #[setting(default = {}, example = { "user": "{header.x-user}" })]
    pub fields: BTreeMap<String, LogTemplate>,
}

/// Filters applied before each route's own filters.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct DefaultsSettings {
    /// The filters, in this order.
    #[setting(default = [])]
    pub filters: Vec<FilterEntry>,
}
