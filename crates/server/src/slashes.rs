//! What `%2F` in a path is on a listener: `encoded_slashes`.
//!
//! It is decided before a route is looked for, and for everybody behind: routes, filters, files and
//! upstreams see the same path. A listener that keeps them as they are, the default, pays nothing.

use std::rc::Rc;

use config::EncodedSlashes;
use exchange::{Dispatch, Fault, Request, Response, Route, Target};

/// The dispatch of a listener with this rule.
pub(crate) fn ruled(rule: EncodedSlashes, inner: Rc<dyn Dispatch>) -> Rc<dyn Dispatch> {
    match rule {
        EncodedSlashes::Keep => inner,
        EncodedSlashes::Decode | EncodedSlashes::Refuse => Rc::new(Ruled { rule, inner }),
    }
}

struct Ruled {
    rule: EncodedSlashes,
    inner: Rc<dyn Dispatch>,
}

impl Dispatch for Ruled {
    fn dispatch(&self, request: &mut Request) -> Result<Rc<Route>, Fault> {
        apply(self.rule, &mut request.target)?;
        self.inner.dispatch(request)
    }

    fn on_generated(&self, request: &Request, response: &mut Response) {
        self.inner.on_generated(request, response);
    }
}

/// Applies the rule to a target.
pub(crate) fn apply(rule: EncodedSlashes, target: &mut Target) -> Result<(), Fault> {
    if rule == EncodedSlashes::Keep || !target.has_encoded_slash() {
        return Ok(());
    }
    let refused = |slug, why| Err(Fault::client(400, slug, why));
    if rule == EncodedSlashes::Refuse {
        return refused("encoded_slash", "the path has an encoded slash");
    }
    match target.decode_slashes() {
        Ok(()) => Ok(()),
        Err(_) => refused("invalid_target", "the path cannot be decoded"),
    }
}
