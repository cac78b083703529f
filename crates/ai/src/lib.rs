//! The handler `ai_proxy`: one OpenAI-compatible API in front of several AI providers.
//!
//! Owns the table of models, the key of each provider and the translation of paths. Promises that
//! no header of the client but `Accept` and `Content-Type` reaches a provider, that no key reaches
//! the client or a log, and that a response is passed through unchanged, chunk by chunk. Never
//! chooses a model on its own: an unknown one is an error.

mod api_error;
mod endpoint;
mod handler;
mod models;
mod provider;
mod settings;

/// The handlers of this crate.
pub static HANDLERS: &[plugin::HandlerKind] = &[handler::KIND];

/// A longer body is parsed on the blocking pool, so that it does not delay the worker.
const ON_WORKER_BYTES: usize = 64 * 1024;
