//! The vocabulary of configuration and how a setting is declared: once, with type, default, range,
//! text and example.
//!
//! Owns: the neutral tree that documents are read into ([`Node`]), the report of errors
//! ([`Report`]), the types with a unit or a syntax ([`Duration`], [`Size`], [`Rate`], [`Percent`],
//! [`Secret`], [`Address`], [`Cidr`], [`Regex`], [`Template`], [`Key`], [`FilePath`]), and the
//! derive macro [`Setting`](derive@Setting), from which reading, help, the JSON Schema and the
//! reference page are generated. Never does: YAML, any concrete setting, opening anything but
//! `{ file: … }`.
//!
//! # How to declare settings
//!
//! A filter, for example, declares the keys of its map as a struct. The doc comments are the
//! reference page, so they are written for users. Every key names its default, and its range where
//! it has one.
//!
//! ```
//! use settings::{Duration, Key, Rate, Setting, node};
//!
//! /// Limits the rate of requests.
//! ///
//! /// Responds 429 with `Retry-After` above it.
//! #[derive(Clone, Debug, PartialEq, Setting)]
//! #[setting(later(shared))]
//! pub struct RateLimit {
//!     /// How many requests a key may make over time.
//!     #[setting(example = "200/s")]
//! pub rate: Rate, /// How many requests may come at once before the rate applies.
//!     #[setting(default = 50, range = 1..=100000)]
//!     pub burst: u32,
//!     /// What requests are counted by.
//!     #[setting(default = "client_ip", example = "header.x-user")]
//!     pub key: Key,
//!     /// How long a request above the rate waits.
//!     #[setting(default = "0s", range = "0s"..="10s")]
//!     pub delay: Duration,
//!     /// The upstream of requests above the rate; without it they are rejected.
//!     pub fallback: Option<String>,
//! }
//!
//! // Reading, here from a node made in the code; `config` makes them from YAML.
//! let written = node!({ "rate": "10/m", "key": "header.x-user" });
//! let limit: RateLimit = settings::read(&written).unwrap();
//! assert_eq!((limit.burst, limit.key.to_string().as_str()), (50, "header.x-user"));
//!
//! // All errors at once, each with the nearest valid word.
//! let out = settings::read::<RateLimit>(&node!({ "rate": "10", "brust": 5 })).unwrap_err();
//! assert!(out.contains("\"10\" has no unit: write 10/s, 10/m or 10/h"), "{out}");
//! assert!(out.contains("unknown key \"brust\", did you mean \"burst\"?"), "{out}");
//!
//! // Every declaration has this test: its defaults, bounds and examples are valid.
//! settings::verify::<RateLimit>().unwrap();
//! ```
//!
//! Options of a field, their values written as [`node!`] takes them (`"1s"`, `50`, `true`, `[]`,
//! `{}`, `["GET", "HEAD"]`):
//!
//! - `default = VALUE`: the value of a key that is not written. Without it the key is required,
//!   unless its type is an `Option`.
//! - `range = LOW..=HIGH`: what is outside is an error.
//! - `example = VALUE`: for the reference and the schema; may be repeated.
//!
//! Options of a struct:
//!
//! - `short = field`: a value that is not a map stands for `{ field: value }`.
//! - `check = function`: `fn(&Name, &Node, &mut Reader<'_>)` for rules across several keys. It is
//!   called when all of them are valid, reports errors and returns nothing.
//! - `later(key, …)`: keys that a later version will have, refused with "comes later".
//! - `default`: implements `Default`; a compile error unless every field has a default or is an
//!   `Option`.
//!
//! An enum is a choice of words and one-key maps. A variant without a value is written as its name
//! in snake case, or as `word` says; a variant with a value as a map with one key. An enum may have
//! `later(word, …)` too.
//!
//! ```
//! # use settings::{Key, Setting, node};
//! /// How a server is picked.
//! #[derive(Clone, Debug, PartialEq, Setting)]
//! pub enum Balance {
//!     /// The server with the fewest requests.
//!     LeastRequests,
//!     /// The better of two picked at random.
//!     #[setting(word = "p2c")]
//!     TwoChoices,
//!     /// The same server for the same key.
//!     Hash(Key),
//! }
//! assert_eq!(settings::read(&node!("least_requests")), Ok(Balance::LeastRequests));
//! assert_eq!(settings::read(&node!("p2c")), Ok(Balance::TwoChoices));
//! let hash = settings::read(&node!({ "hash": "client_ip" }));
//! assert!(matches!(hash, Ok(Balance::Hash(_))));
//! ```
//!
//! What is wrong with a declaration is a compile error at the field: an unknown option, a missing
//! doc comment, a type that is not a setting.
//!
//! ```compile_fail
//! /// A limit.
//! #[derive(settings::Setting)]
//! struct Limit {
//!     /// How many.
//!     #[setting(defualt = 5)]
//!     count: u32,
//! }
//! ```
//!
//! - Lists are `Vec<T>`, one or many [`OneOrMany<T>`](OneOrMany), maps by name [`Named<T>`](Named)
//!   (keeps order and positions) or `BTreeMap<String, T>`, a name that refers to something
//!   `Spanned<String>` ([`Spanned`]).
//! - A new kind of text: `FromStr` (the error completes the sentence `"typed" …`), `Display`,
//!   and a [`Setting`] of three lines through [`Reader::parse`]; `rate.rs` shows one.
//!
//! # Tests of settings
//!
//! `settings::read::<T>(&node!({...}))` gives the value or the rendered errors. [`verify`] checks
//! a declaration.

// The derive macro names this crate `settings`, in its own tests too.
#[cfg(test)]
extern crate self as settings;

mod address;
mod choice;
mod cidr;
mod collections;
mod duration;
mod json_schema;
mod log_template;
mod nearest;
mod node;
mod path;
mod pattern;
mod placeholder;
mod rate;
mod reader;
mod record;
mod reference;
mod render;
mod report;
mod schema;
mod secret;
mod setting;
mod size;
mod spanned;
mod template;
mod variable;
mod verify;

pub use address::{Address, Host};
pub use choice::tagged;
pub use cidr::{Cidr, any_contains};
pub use collections::{Named, OneOrMany};
pub use duration::Duration;
pub use json_schema::json_schema;
pub use log_template::{LogField, LogPart, LogTemplate};
pub use nearest::nearest;
pub use node::{MapKey, Node, Scalar, SourceId, Span, Value, quote};
pub use path::FilePath;
pub use pattern::{REGEX_BYTES, Regex};
pub use placeholder::{Piece, read_pieces};
pub use rate::{Per, Percent, Rate};
pub use reader::{Reader, SETTING_FILE_BYTES, content_digest, read};
pub use reference::reference_markdown;
pub use report::{Diagnostic, ERRORS_KEPT, Report};
pub use schema::{ChoiceDef, Def, Field, RecordDef, Schema, SchemaBuilder, Text, Variant};
pub use secret::Secret;
pub use setting::Setting;
pub use settings_derive::Setting;
pub use size::Size;
pub use spanned::Spanned;
pub use template::{Key, Part, TEMPLATE_PARTS, Template, TemplateError};
pub use variable::{AiField, TlsField, Variable};
pub use verify::{verify, verify_defs};

/// The expansion of the derive macro; not for writing by hand.
#[doc(hidden)]
pub mod derive {
    pub use crate::choice::chosen;
    pub use crate::record::{Fields, Range, accepts};
}
