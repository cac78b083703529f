//! One request in flight: the types, the contracts, the serving loop and the client connection.
//!
//! Everything above speaks of [`Request`], [`Response`], [`Body`] and [`Fault`], and plugs in
//! through [`Filter`], [`Middleware`], [`Handler`] and [`Dispatch`]. An exchange lives and dies on
//! one worker; nothing here is `Send` unless it says so. Owns no route table and reads no
//! configuration.

mod access;
mod background;
mod body;
mod chain;
pub mod client;
mod condition;
mod content;
pub mod duplex;
mod facts;
mod fault;
mod filter_scratch;
mod handlers;
mod header_name;
mod headers;
pub mod keyed;
mod media_pattern;
pub mod offload;
mod params;
mod path_glob;
mod plugin;
mod preconditions;
pub mod problem;
mod ranges;
mod request;
mod response;
mod route_info;
pub mod serve;
mod shared_body;
mod subrequest;
mod target;
pub mod variables;

pub use access::{AccessFormat, AccessLog};
pub use background::{BACKGROUND_MAX, BackgroundPermit, BackgroundTask, Canceller};
pub use body::{Body, BodyStream, Frame, detach_small};
pub use chain::{Filter, Handler, MaybeFuture, Middleware, Next, Route, Stage, Step};
pub use condition::{CONDITION_DEPTH, CONDITION_TESTS, Condition};
pub use content::{Content, WINDOW_BYTES, in_pieces};
pub use duplex::{Duplex, Ending, LocalFuture, Takeover};
pub use facts::{ConnectionFacts, Protocol, Scheme, TlsFacts};
pub use fault::{Fault, FaultKind, Retry, Side};
pub use filter_scratch::FilterScratch;
pub use handlers::HANDLERS;
pub use header_name::HeaderName;
pub use headers::{BegunField, Field, Headers, Name, SharedHeaders};
pub use keyed::{Keyed, KeyedLimits, KeyedMetrics};
pub use media_pattern::MediaPattern;
pub use params::{PARAMS_MAX, Params};
pub use path_glob::{PATH_GLOB_CHARS, PathGlob};
pub use plugin::{
    FilterKind, FilterPlan, HandlerKind, HandlerPlan, Local, Mention, Mentions, Shared,
    WorkerContext,
};
pub use preconditions::{asked_range, preconditions};
pub use ranges::ranged;
pub use request::{Held, Inform, Notes, Request};
pub use response::{Outcome, Response};
pub use route_info::{Bounds, Patience, RouteBounds, RouteInfo};
pub use shared_body::{Full, SharedBody, SharedBodyReader, SharedBodyWriter, shared_body};
pub use subrequest::{SUBREQUEST_DEPTH, Subrequests};
pub use target::Target;

/// Chooses the way of a request; implemented by `server` over the router of the current Plan.
pub trait Dispatch {
    /// The route, with `request.params` filled in; or the fault (404, 405) to answer.
    fn dispatch(&self, request: &mut Request) -> Result<std::rc::Rc<Route>, Fault>;

    /// Changes a response that the server generates for a request without a route.
    fn on_generated(&self, _request: &Request, _response: &mut Response) {}
}
