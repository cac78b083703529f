//! Everything the author of a filter or handler uses.
//!
//! A filter implements [`Filter`], or [`Middleware`] if it surrounds the rest of the route; a
//! handler implements [`Handler`]. A [`FilterKind`] or [`HandlerKind`] makes it known to the
//! configuration, which reads its settings into a [`FilterPlan`] or [`HandlerPlan`]; each worker
//! builds its own instance of it with a [`WorkerContext`]. Owns how a request runs through the
//! stages of a [`Route`], and how a fault becomes a response. Reads no configuration and knows no
//! connection.
//!
//! A filter on a route, as a test runs it:
//!
//! ```
//! use std::rc::Rc;
//!
//! use message::{Fault, FaultKind, Headers, HandlerResult, Request, Response, RouteBounds, Target};
//! use plugin::{Filter, Handler, MaybeFuture, Route, Stage, Step};
//!
//! /// Rejects requests without a header.
//! struct RequireHeader(&'static str);
//!
//! impl Filter for RequireHeader {
//!     fn name(&self) -> &'static str {
//!         "require_header"
//!     }
//!
//!     fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
//!         match request.headers.get(self.0) {
//!             Some(_) => Step::Continue.into(),
//!             None => Step::Fail(Fault::new(FaultKind::Forbidden, "a header is missing")).into(),
//!         }
//!     }
//! }
//!
//! struct Hello;
//!
//! impl Handler for Hello {
//!     fn name(&self) -> &'static str {
//!         "hello"
//!     }
//!
//!     fn handle<'a>(&'a self, _: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
//!         Ok(Response::text(200, "hello")).into()
//!     }
//! }
//!
//! let stages = vec![Stage::Filter(Rc::new(RequireHeader("x-user")))];
//! let metrics = Default::default();
//! let route = Route::new("example", RouteBounds::default(), metrics, stages, Rc::new(Hello));
//! let route = Rc::new(route);
//! let mut request = Request::made_up(
//!     wire::Method::Get,
//!     Target::new("/".into()).unwrap(),
//!     Headers::new(),
//! );
//! net::worker::block_on_local(async {
//!     assert_eq!(route.run(&mut request).await.err().unwrap().status, 403);
//!     request.headers.append("x-user", "ann");
//!     assert_eq!(route.run(&mut request).await.unwrap().status, 200);
//! });
//! ```
//!
//! `examples/filter` is a complete crate with one filter: its settings, plan, kind and test.

mod background;
mod chain;
mod condition;
mod country_code;
mod handler_setting;
mod header_name;
mod key_owners;
pub mod keyed;
mod kinds;
mod maybe_future;
mod media_pattern;
mod path_glob;
pub mod problem;
mod subrequest;
#[cfg(debug_assertions)]
pub mod testing;
pub mod variables;

pub use background::{BACKGROUND_MAX, BackgroundPermit, BackgroundTask, Canceller};
pub use chain::{Dispatch, Filter, Handler, Middleware, Next, Route, Stage, Step};
pub use condition::{CONDITION_DEPTH, CONDITION_TESTS, Condition};
pub use country_code::CountryCode;
pub use handler_setting::HandlerSetting;
pub use header_name::{HeaderName, remove_headers, remove_trailers};
pub use key_owners::{KeyOwner, KeyOwners};
pub use keyed::{Claim, Keyed, KeyedLimits, KeyedMetrics};
pub use kinds::{
    ConsumerLimit, CredentialPlace, FilterKind, FilterPlan, HandlerKind, HandlerPlan, Local,
    Mention, Mentions, RouteNames, Shared, WorkerContext,
};
pub use maybe_future::MaybeFuture;
pub use media_pattern::MediaPattern;
pub use path_glob::{PATH_GLOB_CHARS, PathGlob};
pub use subrequest::{SUBREQUEST_DEPTH, Subrequests};
