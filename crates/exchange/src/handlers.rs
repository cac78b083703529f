//! Handlers that need nothing but the request: a fixed answer and a redirect.

mod redirect;
mod respond;

use crate::HandlerKind;

/// The handlers of this room, for the configuration.
pub static HANDLERS: &[HandlerKind] = &[respond::KIND, redirect::KIND];
