//! Everything the author of a filter or handler needs.
//!
//! A filter implements [`Filter`], or [`Middleware`] if it surrounds the rest of the route; a
//! handler implements [`Handler`]. A [`FilterKind`] or [`HandlerKind`] makes it known to the
//! configuration, which reads its settings into a [`FilterPlan`] or [`HandlerPlan`]; each worker
//! builds its own instance of it with a [`WorkerContext`]. Owns how a request runs through the
//! stages of a [`Route`], and how a fault becomes a response. Reads no configuration and knows no
//! connection.

mod background;
mod chain;
mod condition;
mod header_name;
pub mod keyed;
mod media_pattern;
mod path_glob;
mod plan;
pub mod problem;
mod subrequest;
pub mod variables;

pub use background::{BACKGROUND_MAX, BackgroundPermit, BackgroundTask, Canceller};
pub use chain::{Dispatch, Filter, Handler, MaybeFuture, Middleware, Next, Route, Stage, Step};
pub use condition::{CONDITION_DEPTH, CONDITION_TESTS, Condition};
pub use header_name::HeaderName;
pub use keyed::{Keyed, KeyedLimits, KeyedMetrics};
pub use media_pattern::MediaPattern;
pub use path_glob::{PATH_GLOB_CHARS, PathGlob};
pub use plan::{
    FilterKind, FilterPlan, HandlerKind, HandlerPlan, Local, Mention, Mentions, Shared,
    WorkerContext,
};
pub use subrequest::{SUBREQUEST_DEPTH, Subrequests};
