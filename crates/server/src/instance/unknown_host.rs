//! The listener setting `unknown_host`: what happens to a request that no route takes and whose
//! host no route of the listener names.

use std::rc::Rc;

use config::UnknownHost;
use message::{Fault, FaultKind, Request, Response};
use plugin::{Dispatch, Route};

use super::Instance;

/// The dispatch of a listener with this rule.
pub(super) fn ruled(rule: UnknownHost, inner: Rc<Instance>) -> Rc<dyn Dispatch> {
    match rule {
        UnknownHost::NotFound => inner,
        UnknownHost::Misdirected | UnknownHost::Close => Rc::new(HostDispatch { rule, inner }),
    }
}

struct HostDispatch {
    rule: UnknownHost,
    inner: Rc<Instance>,
}

impl Dispatch for HostDispatch {
    fn dispatch(&self, request: &mut Request) -> Result<Rc<Route>, Fault> {
        self.inner.dispatch(request).map_err(|fault| match fault.status {
            404 if !self.inner.names_host(request) => unknown(self.rule),
            _ => fault,
        })
    }

    fn on_generated(&self, request: &Request, response: &mut Response) {
        self.inner.on_generated(request, response);
    }
}

fn unknown(rule: UnknownHost) -> Fault {
    let detail = "no route names the host of the request";
    match rule {
        UnknownHost::NotFound => Fault::not_found(),
        UnknownHost::Misdirected => Fault::new(FaultKind::UnknownHost, detail),
        UnknownHost::Close => Fault::unanswered(FaultKind::UnknownHost, detail),
    }
}
