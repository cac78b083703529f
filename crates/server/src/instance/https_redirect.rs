//! The listener of `redirect_from`: every request is redirected to https.

use std::rc::Rc;
use std::sync::Arc;

use http_server::redirect_to_https;
use message::{Fault, FaultKind, HandlerResult, Request, RouteBounds};
use plugin::{Dispatch, Handler, MaybeFuture, Route};
use telemetry::RouteMetrics;

/// The port of https, which URLs leave out.
const HTTPS: u16 = 443;

/// A dispatch that redirects to this port.
pub(super) fn to(port: u16) -> Rc<dyn Dispatch> {
    let metrics = Arc::new(RouteMetrics::default());
    let handler = Rc::new(RedirectHandler(port));
    let bounds = RouteBounds::default();
    Rc::new(HttpsRedirect(Rc::new(Route::new(
        "https-redirect",
        bounds,
        metrics,
        Vec::new(),
        handler,
    ))))
}

struct HttpsRedirect(Rc<Route>);

impl Dispatch for HttpsRedirect {
    fn dispatch(&self, _request: &mut Request) -> Result<Rc<Route>, Fault> {
        Ok(self.0.clone())
    }
}

struct RedirectHandler(u16);

impl Handler for RedirectHandler {
    fn name(&self) -> &'static str {
        "https-redirect"
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        let host = request.host();
        if host.is_empty() {
            let detail = "plain HTTP without a host to redirect to";
            return Err(Fault::new(FaultKind::PlainHttp, detail)).into();
        }
        let authority = match self.0 {
            HTTPS => host.to_vec(),
            port => [host, format!(":{port}").as_bytes()].concat(),
        };
        Ok(redirect_to_https(request, &authority)).into()
    }
}
