//! `forward_auth`: another server decides whether a request is allowed.
//!
//! Promises that the server receives the request as it is forwarded; that a header which the filter
//! copies comes from the server's response and never from the client; and that a server that fails
//! or is late rejects the request.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use http_client::{Client, ClientOptions, ClientSettings, PoolLimits, Url};
use message::{
    Body, Consumer, Fault, FaultKind, HandlerResult, Headers, LocalFuture, Request, Response,
    Target,
};
use net::Resolver;
use net::tls::ClientTls;
use plugin::{
    Filter, FilterKind, FilterPlan, Handler, HandlerSetting, HeaderName, MaybeFuture, Middleware,
    Next, Stage, Step, WorkerContext, remove_headers,
};
use settings::{Duration, Node, Reader, Setting, Size, Span, Spanned};
use telemetry::{CachePadded, Counter};
use tls_settings::UpstreamTlsSettings;
use wire::{Known, Method};

use crate::credential::{CredentialId, CredentialKind};
use crate::identity::in_clear;
use crate::last_method::{
    self, Decision, Hide, LastMethod, LastMethodPlan, NOTHING_TO_HIDE, ResponseChange,
};
use crate::registry::Directory;

pub(crate) const KIND: FilterKind =
    FilterKind { name: "forward_auth", schema: ForwardAuth::schema, read };

/// The longest response of the server that is passed to the client.
const RESPONSE_BYTES_MAX: u64 = 1024 * 1024;
/// Headers with which the server would not respond to the request itself.
const CONDITIONS: [Known; 6] = [
    Known::IfMatch,
    Known::IfNoneMatch,
    Known::IfModifiedSince,
    Known::IfUnmodifiedSince,
    Known::IfRange,
    Known::Range,
];

/// Asks another server whether a request is allowed.
///
/// The server gets a GET with the headers of the request, and `X-Forwarded-Method`, `-Proto`,
/// `-Host`, `-Uri` and `-For`. A response with 2xx allows the request; any other response goes to
/// the client, with its headers: a redirect to a login page, for example. Without a response the
/// client gets 503 or 504.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub(crate) struct ForwardAuth {
    /// The URL that is requested. Redirects are not followed.
    #[setting(example = "https://auth.example.com/verify")]
    url: Option<Url>,
    /// The handler that receives the request, instead of a URL.
    #[setting(example = { "upstream": "auth" })]
    to: Option<HandlerSetting>,
    /// The path, and perhaps the query, that is requested from `to`.
    #[setting(example = "/verify?app=shop")]
    path: Option<String>,
    /// TLS to the server of `url`.
    #[setting(example = { "ca": "internal.pem" })]
    tls: Option<Spanned<UpstreamTlsSettings>>,
    /// The headers of the request that are sent; all unless set.
    #[setting(example = ["cookie", "authorization"])]
    send: Option<Vec<HeaderName>>,
    /// Headers of a response with 2xx that are copied to the request. Headers of these names that
    /// the client sent are always removed.
    #[setting(default = [], example = ["remote-user", "remote-groups"])]
    copy: Vec<HeaderName>,
    /// Headers of a response with 2xx that are added to the response to the client, such as the
    /// cookie of a session that was renewed.
    #[setting(default = [], example = ["set-cookie"])]
    to_client: Vec<HeaderName>,
    /// The header of a response with 2xx that names the request's `consumer`: one of `consumers`,
    /// or one of which only the name is known. The server is trusted to name any. A response with
    /// several such headers is an error.
    #[setting(example = "remote-user")]
    consumer: Option<HeaderName>,
    /// Rejects requests whose consumer has no entry in `consumers`, with 403. Needs `consumer`.
    #[setting(default = false)]
    consumers_only: bool,
    /// Sends the body too, up to this size, with POST instead of GET. A request with a longer body
    /// is rejected with 413.
    #[setting(range = "1B"..="16MiB", example = "64KiB")]
    body: Option<Size>,
    /// The longest time for a response, with the connection.
    #[setting(default = "5s", range = "10ms"..="5m")]
    timeout: Duration,
}

fn check(settings: &ForwardAuth, node: &Node, reader: &mut Reader<'_>) {
    // A value that cannot be read is an error already.
    if node.get("url").is_some() == node.get("to").is_some() {
        reader.error(node.span, "the server is either url or to");
    }
    if settings.path.is_some() && settings.to.is_none() {
        reader.error(node.span, "`path` is for `to`: a url has a path");
    }
    if settings.to.is_some() && settings.target().is_none() {
        reader.error(node.span, "`path` is not a path that begins with a slash");
    }
    if settings.consumers_only && settings.consumer.is_none() {
        reader.error(node.span, "`consumers_only` needs `consumer`, the header that names it");
    }
    let is_secure = settings.url.as_ref().is_some_and(|url| url.is_secure);
    if let (Some(tls), false) = (&settings.tls, is_secure) {
        reader.error(tls.span, "`tls` has no effect: there is no url of https");
    }
    for name in settings.copy.iter().chain(&settings.to_client) {
        if Known::from_bytes(name.as_str().as_bytes()).is_some_and(Known::is_framing) {
            reader.error(node.span, format!("{name} cannot be copied: it frames the message"));
        }
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(ForwardAuth::read(node, reader)?.plan(node.span, reader)?))
}

impl ForwardAuth {
    /// The plan of settings at this place; `None` with an error if TLS cannot be set up.
    pub(crate) fn plan(self, span: Span, reader: &mut Reader<'_>) -> Option<ForwardAuthPlan> {
        let tls = match self.url.as_ref().is_some_and(|url| url.is_secure) {
            true => Some(UpstreamTlsSettings::client(self.tls.as_ref(), span, reader)?),
            false => None,
        };
        Some(ForwardAuthPlan { settings: self, tls })
    }

    /// The target of the subrequest.
    fn target(&self) -> Option<Target> {
        match &self.url {
            Some(url) => Some(url.target.clone()),
            None => {
                let path = self.path.as_deref().unwrap_or("/").to_owned();
                Target::new(path.into()).ok().filter(|target| target.raw().starts_with(b"/"))
            }
        }
    }
}

pub(crate) struct ForwardAuthPlan {
    settings: ForwardAuth,
    tls: Option<ClientTls>,
}

impl FilterPlan for ForwardAuthPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let filter = self.filter(worker);
        // Only a middleware has what the server responded when the response comes.
        match self.settings.to_client.is_empty() {
            true => Stage::Filter(filter),
            false => Stage::Middleware(filter),
        }
    }

    fn handlers(&self) -> Vec<&HandlerSetting> {
        self.settings.to.iter().collect()
    }

    fn authenticates(&self) -> bool {
        true
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn describe(&self) -> String {
        match (&self.settings.url, &self.settings.to) {
            // The query may be secret.
            (Some(url), _) => format!("by {}", url.authority),
            (None, Some(to)) => format!("by {to}"),
            (None, None) => String::new(),
        }
    }
}

impl LastMethodPlan for ForwardAuthPlan {
    fn build_method(&self, worker: &WorkerContext) -> Rc<dyn LastMethod> {
        self.filter(worker)
    }

    fn own_headers(&self) -> Vec<HeaderName> {
        self.settings.copy.clone()
    }

    fn url_in_clear(&self) -> Option<Url> {
        self.settings.url.clone().filter(in_clear)
    }
}

impl ForwardAuthPlan {
    fn filter(&self, worker: &WorkerContext) -> Rc<ForwardAuthFilter> {
        let settings = &self.settings;
        let server = match (&settings.url, &settings.to) {
            (Some(url), _) => AuthServer::Url(Box::new(UrlServer {
                client: self.client(url, worker),
                names: worker.local.get((), Resolver::system),
                url: url.clone(),
            })),
            (None, to) => AuthServer::Handler(to.as_ref().map(|to| to.build(worker))),
        };
        Rc::new(ForwardAuthFilter {
            server,
            target: settings.target().unwrap_or_else(Target::asterisk),
            send: settings.send.clone(),
            copy: settings.copy.as_slice().into(),
            to_client: settings.to_client.as_slice().into(),
            consumer: settings.consumer.clone(),
            consumers_only: settings.consumers_only,
            body_bytes_max: settings.body.map(|size| size.bytes()),
            timeout: settings.timeout.get(),
            directory: Directory::of(worker),
            denied: worker.policy_rejections(KIND.name, "denied"),
            unknown: worker.policy_rejections(KIND.name, "unknown_consumer"),
            failed: worker.policy_rejections(KIND.name, "failed"),
        })
    }

    fn client(&self, url: &Url, worker: &WorkerContext) -> Client {
        let timeout = self.settings.timeout.get();
        let settings = ClientSettings {
            name: format!("forward_auth {}", url.authority),
            tls: self.tls.clone(),
            server_name: self.settings.tls.as_ref().and_then(|tls| tls.server_name()),
            connect: timeout,
            limits: PoolLimits::default(),
            options: Rc::new(ClientOptions { via: false, ..ClientOptions::default() }),
        };
        Client::new(worker, settings)
    }
}

/// The server that decides.
enum AuthServer {
    Url(Box<UrlServer>),
    Handler(Option<Rc<dyn Handler>>),
}

struct UrlServer {
    client: Client,
    names: Rc<Resolver>,
    url: Url,
}

struct ForwardAuthFilter {
    server: AuthServer,
    target: Target,
    send: Option<Vec<HeaderName>>,
    copy: Rc<[HeaderName]>,
    to_client: Rc<[HeaderName]>,
    consumer: Option<HeaderName>,
    consumers_only: bool,
    body_bytes_max: Option<u64>,
    timeout: std::time::Duration,
    directory: Rc<Directory>,
    denied: Arc<CachePadded<Counter>>,
    unknown: Arc<CachePadded<Counter>>,
    failed: Arc<CachePadded<Counter>>,
}

impl Filter for ForwardAuthFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        MaybeFuture::of(async move {
            match self.allowing_response(request, NOTHING_TO_HIDE).await {
                Ok(_) => Step::Continue,
                Err(Ok(response)) => Step::Respond(response),
                Err(Err(fault)) => Step::Fail(fault),
            }
        })
    }
}

impl Middleware for ForwardAuthFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn call<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        next: Next,
    ) -> MaybeFuture<'a, HandlerResult> {
        last_method::call(self, request, next)
    }
}

impl LastMethod for ForwardAuthFilter {
    fn decide<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        hide: Hide<'a>,
    ) -> LocalFuture<'a, Decision> {
        Box::pin(async move {
            match self.allowing_response(request, hide).await {
                Ok(response) => Decision::Allowed(self.for_client(response.headers)),
                Err(rejection) => Decision::Responded(rejection),
            }
        })
    }
}

impl ForwardAuthFilter {
    /// The response that allows the request, or the one that the client gets. The server sees the
    /// credentials that `hide` removes from what is forwarded.
    async fn allowing_response(
        &self,
        request: &mut Request,
        hide: Hide<'_>,
    ) -> Result<Response, HandlerResult> {
        let body = self.body(request).await.map_err(HandlerResult::Err)?;
        let question = self.question(request, &body);
        hide(request);
        let response = self.ask(question, body).await.map_err(|fault| {
            self.failed.inc();
            HandlerResult::Err(failure(&fault))
        })?;
        if !(200..300).contains(&response.status) {
            self.denied.inc();
            return Err(Ok(response));
        }
        if let Err(fault) = self.accept(request, &response) {
            self.failed.inc();
            return Err(Err(failure(&fault)));
        }
        if self.consumers_only && request.consumer.is_none() {
            self.unknown.inc();
            return Err(Err(Fault::new(
                FaultKind::Forbidden,
                "forward_auth named no consumer that has an entry",
            )));
        }
        Ok(response)
    }

    /// Adds headers of the response that allowed a request to the one that the client gets.
    fn for_client(&self, allowing: Headers) -> Option<ResponseChange> {
        let names = self.to_client.clone();
        let add = move |mut result: HandlerResult| {
            let headers: &mut Headers = match &mut result {
                Ok(response) => &mut response.headers,
                Err(fault) => fault.fields.get_or_insert_default(),
            };
            for name in &*names {
                allowing.get_all(name).for_each(|value| headers.append(name, value));
            }
            result
        };
        (!self.to_client.is_empty()).then(|| Box::new(add) as ResponseChange)
    }

    /// The body that is sent, which the request keeps.
    async fn body(&self, request: &mut Request) -> Result<Option<Body>, Fault> {
        let Some(limit) = self.body_bytes_max else { return Ok(None) };
        request.buffer_body(limit).await.map(|bytes| Some(Body::from(bytes)))
    }

    /// The request about a request.
    fn question(&self, request: &Request, body: &Option<Body>) -> Request {
        let mut question = request.subrequest();
        let headers = &mut question.headers;
        if let Some(listed) = &self.send {
            headers.retain(|field| {
                listed.iter().any(|name| field.name.eq_ignore_ascii_case(name.as_str().as_bytes()))
            });
        }
        for name in CONDITIONS.into_iter().filter(|_| body.is_none()) {
            headers.remove(name);
        }
        headers.set("x-forwarded-method", request.method.as_bytes());
        headers.set("x-forwarded-uri", request.target.raw());
        headers.set(Known::XForwardedHost, request.authority());
        headers.set(Known::XForwardedProto, request.scheme.as_str());
        match &self.server {
            AuthServer::Url(server) => headers.set(Known::Host, &server.url.authority),
            AuthServer::Handler(_) => headers.set(Known::Host, request.authority()),
        }
        question.method = if body.is_some() { Method::Post } else { Method::Get };
        question.target = self.target.clone();
        question
    }

    /// Sends the request and receives the whole response.
    async fn ask(&self, mut question: Request, body: Option<Body>) -> Result<Response, Fault> {
        let body = body.unwrap_or_default();
        match &self.server {
            AuthServer::Url(server) => {
                let UrlServer { client, names, url } = &**server;
                client.fetch(names, url, &question, body, self.timeout, RESPONSE_BYTES_MAX).await
            }
            AuthServer::Handler(handler) => {
                let handler = handler.as_ref().ok_or_else(|| Fault::internal("no handler"))?;
                question.body = body;
                let exchange = async {
                    let mut response = handler.handle(&mut question).resolve().await?;
                    let content = response.body.collect(RESPONSE_BYTES_MAX).await?;
                    response.body = Body::from(content);
                    Ok(response)
                };
                let exchange = net::timer::within(self.timeout, exchange).await;
                exchange.unwrap_or_else(|| Err(Fault::deadline()))
            }
        }
    }

    /// Copies what the response reports about the client to the request. A response that names
    /// two consumers is an error: which of them would the upstream use?
    fn accept(&self, request: &mut Request, response: &Response) -> Result<(), Fault> {
        if let Some(header) = &self.consumer {
            let mut names = response.headers.get_all(header);
            let name = names.next();
            if names.next().is_some() {
                return Err(Fault::new(
                    FaultKind::ProtocolError,
                    format!("several headers {header} name the consumer"),
                ));
            }
            request.consumer = self.consumer_of(name.and_then(|name| str::from_utf8(name).ok()));
        }
        remove_headers(request, &self.copy);
        for name in &*self.copy {
            for value in response.headers.get_all(name) {
                request.headers.append(name, value);
            }
        }
        Ok(())
    }

    fn consumer_of(&self, name: Option<&str>) -> Option<Rc<Consumer>> {
        let name = name.filter(|name| !name.is_empty() && !name.contains(char::is_control))?;
        let id = CredentialId::of(CredentialKind::Name, name.as_bytes());
        match self.consumers_only {
            true => self.directory.entry(&id).map(|(consumer, _)| consumer),
            false => Some(self.directory.named(&id, name)),
        }
    }
}

/// The fault of the client's request: a failure of the server that decides is none of an upstream.
fn failure(fault: &Fault) -> Fault {
    let detail = format!("the server of forward_auth has not decided: {}", fault.detail);
    match fault.status {
        504 => Fault::new(FaultKind::Deadline, detail),
        _ => Fault::new(FaultKind::Unavailable, detail),
    }
}

#[cfg(test)]
mod tests;
