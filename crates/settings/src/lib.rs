//! The vocabulary of configuration and how a setting is declared: once, with type, default, range,
//! prose and example.
//!
//! Owns: the neutral tree that documents are read into ([`Node`]), the report of mistakes
//! ([`Report`]), the types with a unit or a syntax ([`Duration`], [`Size`], [`Rate`], [`Percent`],
//! [`Secret`], [`Address`], [`Cidr`], [`Regex`], [`Template`], [`Key`], [`FilePath`]), and the
//! macros [`record!`] and [`choice!`], from which reading, help, the JSON Schema and the reference
//! page all come. Never does: YAML, any concrete setting, opening anything but `{ file: … }`.
//!
//! # How to declare settings
//!
//! A filter, say, declares what may be written in its map. The doc comments are the reference page,
//! so they are written for users. Every key names its default, and its range where it has one.
//!
//! ```
//! use settings::{Duration, Key, Rate, node};
//!
//! settings::record! {
//!     /// Lets a client do only so much.
//!     ///
//!     /// Answers 429 with `Retry-After` past it.
//!     pub struct RateLimit {
//!         /// How many requests a key may make over time.
//!         pub rate: Rate { example "200/s" },
//!         /// How many requests may come at once before the rate counts.
//!         pub burst: u32 = 50 { in 1..=100000 },
//!         /// What requests are told apart by.
//!         pub key: Key = "client_ip" { example "header.x-user" },
//!         /// How long a key that is over its rate is held back.
//!         pub delay: Duration = "0s" { in "0s"..="10s" },
//!         /// Where to send them instead; without it they are refused.
//!         pub fallback: Option<String>,
//!     }
//!     later: shared;              // promised: refused with "`shared` comes later"
//! }
//! # fn main() {
//!
//! // Reading, here from a node made in the code; `config` makes them from YAML.
//! let written = node!({ "rate": "10/m", "key": "header.x-user" });
//! let limit: RateLimit = settings::read(&written).unwrap();
//! assert_eq!((limit.burst, limit.key.to_string().as_str()), (50, "header.x-user"));
//!
//! // All mistakes at once, each with what was probably meant.
//! let out = settings::read::<RateLimit>(&node!({ "rate": "10", "brust": 5 })).unwrap_err();
//! assert!(out.contains("\"10\" has no unit: write 10/s, 10/m or 10/h"), "{out}");
//! assert!(out.contains("unknown key \"brust\", did you mean \"burst\"?"), "{out}");
//!
//! // Every declaration has this test: its defaults, bounds and examples are valid.
//! settings::verify::<RateLimit>().unwrap();
//! # }
//! ```
//!
//! - No default: the key is required, unless its type is an `Option`. All fields with defaults
//!   (`= null` for an `Option`): the struct has `Default`.
//! - `short: address;` after the struct: a value that is no map stands for `{ address: value }`.
//! - `check: function;`, `fn(&Name, &Node, &mut Reader<'_>)`, for what spans several keys; it
//!   reports and returns nothing.
//! - A word or a one-key map, `p2c | { hash: client_ip }`: [`choice!`].
//! - Lists are `Vec<T>`, one or many [`OneOrMany<T>`](OneOrMany), maps by name [`Named<T>`](Named)
//!   (keeps order and places) or `BTreeMap<String, T>`, a name that refers to something
//!   `Spanned<String>` ([`Spanned`]).
//! - A new kind of text: `FromStr` (the error completes the sentence `"typed" …`), `Display`,
//!   and a [`Setting`] of three lines through [`Reader::parse`]; `rate.rs` shows one.
//!
//! # Tests of settings
//!
//! `settings::read::<T>(&node!({...}))` gives the value or the rendered mistakes. [`verify`] checks
//! a declaration.

mod address;
mod choice;
mod cidr;
mod collections;
mod duration;
mod json_schema;
mod nearest;
mod node;
mod path;
mod pattern;
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
pub use nearest::nearest;
pub use node::{MapKey, Node, Scalar, SourceId, Span, Value, quote};
pub use path::FilePath;
pub use pattern::{REGEX_BYTES, Regex};
pub use rate::{Per, Percent, Rate};
pub use reader::{Reader, SETTING_FILE_BYTES, read};
pub use reference::reference_markdown;
pub use report::{MISTAKES_KEPT, Mistake, Report};
pub use schema::{ChoiceDef, Def, Field, RecordDef, Schema, SchemaBuilder, Text, Variant, doc};
pub use secret::Secret;
pub use setting::Setting;
pub use size::Size;
pub use spanned::Spanned;
pub use template::{Key, Part, TEMPLATE_PARTS, Template};
pub use variable::Variable;
pub use verify::{verify, verify_defs};

/// What the macros expand to; not for writing by hand.
#[doc(hidden)]
pub mod macros {
    pub use crate::choice::{chosen, yes};
    pub use crate::record::{Fields, Range, accepts, key};
}
