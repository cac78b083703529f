//! Handlers that need nothing but the request: a fixed answer and a redirect.

mod redirect;
mod respond;

use settings::{Template, Variable};

use crate::HandlerKind;

/// The handlers of this room, for the configuration.
pub static HANDLERS: &[HandlerKind] = &[respond::KIND, redirect::KIND];

/// The route parameters a template names.
fn path_params(template: &Template) -> impl Iterator<Item = String> {
    template.variables().filter_map(|variable| match variable {
        Variable::PathParam(name) => Some(name.to_string()),
        _ => None,
    })
}
