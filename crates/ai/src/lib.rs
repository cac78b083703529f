//! The handler `ai_proxy`: one OpenAI-compatible API in front of several AI providers.
//!
//! Owns the table of models, the key of each provider, the choice of a provider, the count of
//! tokens and the translation between APIs. Promises that no header of the client but `Accept`
//! reaches a provider, that no key reaches the client or a log, that a response is passed through
//! as it arrives, without the usage that the client has not requested, and that a request is sent
//! to another provider only before the client has received anything. Never chooses a model on its
//! own: an unknown one is an error.

mod accounting;
mod anthropic;
mod api_error;
mod attempts;
mod endpoint;
mod events;
mod handler;
mod model_state;
mod models;
mod prompt;
mod provider;
mod request_body;
mod settings;
mod target;
mod token_limits;
mod usage;

pub use events::EventStream;
pub use usage::{Usage, UsageScanner};

/// The handlers of this crate.
pub static HANDLERS: &[plugin::HandlerKind] = &[handler::KIND];
