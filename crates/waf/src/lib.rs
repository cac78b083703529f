//! The filter `waf`: a small scored rule set against injection, traversal, scanners and abuse of
//! the protocol, and rules of the configuration that allow or reject.
//!
//! Every rule that matches a part of the request adds its score; at the threshold the request is
//! rejected. Promises bounded work: bodies are inspected up to a limit, expressions run in linear
//! time, and an input of ordinary characters meets no expression at all. Never changes a request,
//! and never logs a value of it.

mod agents;
mod body;
mod filter;
mod inputs;
mod normalize;
mod rules;
mod score;

pub use filter::KIND;
pub use inputs::inspect_content;
pub use rules::{CATEGORIES, Part, RULES, Rule};
pub use score::{Scanner, WafVerdict};
