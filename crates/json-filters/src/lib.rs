//! Filters that read JSON: `json_body` edits the bodies of requests and responses, `template`
//! replaces them by a filled-in text, `validate` checks requests against JSON Schema.
//!
//! A body is collected up to a limit, decoded and parsed once per filter. Promises that no number
//! and no string changes that no setting names: the tree keeps their spelling. The media type alone
//! decides whether a body is JSON, never its content.

mod content;
pub mod edit;
mod json_body;
pub mod pointer;
mod template;
pub mod tree;
mod validate;

use plugin::FilterKind;

pub use content::on_worker_or_pool;
pub use validate::is_keyword;

/// Every filter of this crate.
pub static ALL: &[FilterKind] = &[json_body::KIND, template::KIND, validate::KIND];
