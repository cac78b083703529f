//! Match rules → compiled table → route, and why.
//!
//! Owns the settings under a route's `match:` ([`Match`]), the total order of routes
//! (`precedence`), the compiled table ([`Router`]) and its explanations ([`Explanation`]).
//! Promises: a lookup allocates nothing (except for named groups of a regular expression), takes no
//! lock and costs about the same among five routes and five thousand; the order is the one of
//! `docs/guide/routing.md`, without exception. Does not know filters and handlers: a route is a
//! number here.
//!
//! ```
//! use message::{Headers, Request, Target};
//! use router::{RouteLookup, Input, Router, Rule};
//! use settings::{Span, node};
//! use wire::Method;
//!
//! let rule = |name: &str, matches| Rule {
//!     name: name.to_owned(),
//!     span: Span::NOWHERE,
//!     matches: settings::read(&matches).unwrap(),
//! };
//! let router = Router::compile(vec![
//!     rule("site", node!({ "path": "/{*file}" })),
//!     rule("shop", node!({ "host": "*.shop.example", "path": "/item/{id}", "methods": ["GET"] })),
//! ])
//! .unwrap();
//!
//! let mut headers = Headers::new();
//! headers.append("host", "www.shop.example:8080");
//! let target = Target::new("/item/7".into()).unwrap();
//! let request = Request::made_up(Method::Get, target, headers);
//! let RouteLookup::Route(id, params) = router.find(&Input::from(&request)) else {
//!     panic!("no route")
//! };
//! assert_eq!(router.rules()[id.index()].name, "shop");
//! assert_eq!(params.get("/item/7", "id"), Some("7"));
//! ```

mod compare;
mod compile;
mod edges;
mod explain;
mod find;
mod host;
mod limits;
mod listing;
mod matching;
mod method_name;
mod methods;

mod path;
mod precedence;
mod shadow;
mod table;
#[cfg(test)]
mod testing;
mod tree;

pub use compare::PathDiffers;
pub use explain::{Candidate, Chosen, Explanation, MismatchReason, RuleVerdict};
pub use find::{Input, RouteLookup};
pub use host::HostPattern;
pub use limits::{
    CANDIDATES_SHOWN, ENTRIES_MAX, LISTENERS_MAX, METHODS_MAX, PATTERN_BYTES, SEGMENTS_MAX,
};
pub use matching::Match;
pub use method_name::MethodName;
pub use path::{PathPattern, Segment, Segments};
pub use precedence::RuleOrder;
pub use table::{RouteError, RouteId, Router, Rule};
