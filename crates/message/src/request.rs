//! One request in flight, as filters and handlers see it.

use std::any::Any;
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::{Rc, Weak};

use bytes::Bytes;
use wire::trace_context::TraceContext;
use wire::{Known, Method, Version};

use crate::{
    AiCall, Body, Claims, Consumer, Fault, FilterScratch, GrpcCall, Headers, Params, RequestTrace,
    RouteInfo, Target,
};
use crate::{ConnectionFacts, Protocol, Scheme};

/// What a handler may tell the client's side of its exchange.
pub trait Inform {
    /// Sends an interim response (1xx) before the head of the final one.
    fn inform(&self, status: u16, headers: &Headers);

    /// The exchange holds this from now on, until it is dropped.
    fn hold(&self, _held: Weak<dyn HeldResource>) {}

    /// The bytes of the request's body that have been read so far.
    fn body_bytes(&self) -> u64 {
        0
    }
}

/// The countries of addresses.
pub trait CountryDatabase {
    /// The country of an address as two capital letters (ISO 3166-1), if it has one.
    fn country(&self, address: IpAddr) -> Option<&str>;
}

/// A limited resource that an exchange holds while it may wait for its client: a connection to a
/// server that accepts only so many.
pub trait HeldResource {
    /// Called each time the exchange has waited for its client for a further second, with what the
    /// client has moved so far in bytes a second. True ends the exchange.
    fn must_give_way(&self, rate: u64) -> bool;
}

/// Requests whose memory a worker keeps for the next ones.
const SPARE_MAX: usize = 64;

thread_local! {
    #[allow(clippy::vec_box)] // a pointer goes in and out, the request stays where it is
    static SPARE: RefCell<Vec<Box<Request>>> = const { RefCell::new(Vec::new()) };
    /// The facts of no connection.
    static NOBODY: Rc<ConnectionFacts> = Rc::new(ConnectionFacts::internal());
}

/// A request, and what the server knows about it.
pub struct Request {
    pub method: Method,
    pub version: Version,
    pub target: Target,
    pub headers: Headers,
    pub body: Body,
    pub facts: Rc<ConnectionFacts>,
    /// The client, after trusted proxies have been believed.
    pub client_ip: IpAddr,
    /// Where the country of the client is looked up, if the configuration names a database.
    pub countries: Option<Rc<dyn CountryDatabase>>,
    /// The scheme the client used, after trusted proxies have been believed.
    pub scheme: Scheme,
    /// The client asks for a protocol switch (RFC 9110 7.8); a handler may answer 101.
    pub upgrade: bool,
    /// Microseconds on the worker's clock when the head was whole.
    pub began_us: u64,
    /// How many microseconds before that its first bytes came; 0 if it came at once.
    pub head_us: u32,
    /// The route that was chosen; `None` until then.
    pub route: Option<Rc<RouteInfo>>,
    /// What the path parameters of the route matched.
    pub params: Params,
    /// Set by the filter `request_id` or taken from the client.
    pub request_id: Option<Box<str>>,
    /// The position in its trace, if requests are traced.
    pub trace: Option<RequestTrace>,
    /// The authenticated consumer.
    pub consumer: Option<Rc<Consumer>>,
    /// The claims of the token that it authenticated with.
    pub claims: Option<Claims>,
    /// What filters want the log to know: upstream address, attempts, ...
    pub notes: Notes,
    /// What filters keep between their two hooks.
    pub marks: FilterScratch,
    /// What a script keeps with the request; it goes when the request does.
    pub attached: Option<Rc<dyn Any>>,
    pub informer: Option<Rc<dyn Inform>>,
    /// What filters hold for the exchange, such as permits: dropped at its end, after the last byte
    /// of the response.
    pub permits: Vec<Box<dyn Any>>,
    /// How many requests led to this one from within: 0 for a client's.
    pub depth: u8,
}

/// Remarks for the access log.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    pub upstream: Option<Rc<str>>,
    pub upstream_attempts: u16,
    /// The time that its attempts took, up to the head of the response; `None` without one.
    pub upstream_us: Option<u32>,
    /// What a cache did with it: a word such as `hit` or `miss`.
    pub cache: Option<&'static str>,
    /// What failed, when the exchange did: [`Fault::slug`].
    pub fault: Option<&'static str>,
    /// The gRPC call that the request is.
    pub grpc: Option<Rc<GrpcCall>>,
    /// The call of an AI model that the request is.
    pub ai: Option<Rc<AiCall>>,
}

impl Request {
    /// A request that no client sent: health checks, warm-up, mirrors, tests.
    pub fn made_up(method: Method, target: Target, headers: Headers) -> Request {
        Request { method, target, headers, ..Request::nothing() }
    }

    fn nothing() -> Request {
        let facts = NOBODY.with(Rc::clone);
        Request {
            method: Method::Get,
            version: Version::Http11,
            target: Target::asterisk(),
            headers: Headers::new(),
            body: Body::Empty,
            client_ip: facts.peer_ip(),
            countries: None,
            scheme: facts.scheme(),
            facts,
            upgrade: false,
            began_us: net::clock::now_us(),
            head_us: 0,
            route: None,
            params: Params::default(),
            request_id: None,
            trace: None,
            consumer: None,
            claims: None,
            notes: Notes::default(),
            marks: FilterScratch::default(),
            attached: None,
            informer: None,
            permits: Vec::new(),
            depth: 0,
        }
    }

    /// A request to be filled in, mostly in the memory of one that has been answered: it is large,
    /// and moving it or asking for memory would cost more than answering a simple one.
    pub fn blank() -> Box<Request> {
        let spare = SPARE.with(|spare| spare.borrow_mut().pop());
        spare.unwrap_or_else(|| Box::new(Request::nothing()))
    }

    /// Gives up what the request holds, and its memory to the next one.
    pub fn retire(mut self: Box<Self>) {
        self.method = Method::Get;
        self.headers = Headers::new();
        self.body = Body::Empty;
        self.facts = NOBODY.with(Rc::clone);
        self.countries = None;
        self.head_us = 0;
        self.route = None;
        self.params.clear();
        self.request_id = None;
        self.trace = None;
        self.consumer = None;
        self.claims = None;
        self.notes = Notes::default();
        self.marks = FilterScratch::default();
        self.attached = None;
        self.informer = None;
        self.permits.clear();
        self.depth = 0;
        SPARE.with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.push(self);
            }
        });
    }

    /// Notes when the first bytes of the head came, of a head that did not come at once.
    pub fn note_first_byte(&mut self, first_us: u64) {
        let head_us = self.began_us.saturating_sub(first_us);
        self.head_us = u32::try_from(head_us).unwrap_or(u32::MAX);
    }

    /// The name of the authenticated consumer.
    pub fn consumer_name(&self) -> Option<&str> {
        self.consumer.as_ref().map(|consumer| &*consumer.name)
    }

    /// The identity of its trace and its span, if requests are traced.
    pub fn traced(&self) -> Option<TraceContext> {
        let trace = self.trace.as_ref()?;
        trace.is_traced().then(|| trace.context())
    }

    /// The identity of its trace as text, if requests are traced: for events about the request.
    pub fn trace_id(&self) -> Option<String> {
        let text = self.traced()?.trace_id_text();
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// The authority the client named: host and perhaps port. The serving loop has put an
    /// absolute-form authority into Host (RFC 9112 3.2.2).
    pub fn authority(&self) -> &[u8] {
        self.headers.get(Known::Host).unwrap_or_default()
    }

    /// The authority without its port.
    pub fn host(&self) -> &[u8] {
        let authority = self.authority();
        wire::authority::Authority::parse(authority).map_or(authority, |parsed| parsed.host)
    }

    /// Sends an interim response, such as 103 Early Hints (RFC 8297); without a client it is
    /// dropped.
    pub fn inform(&self, status: u16, headers: &Headers) {
        if let Some(informer) = &self.informer {
            informer.inform(status, headers);
        }
    }

    /// Takes the request out of its place, leaving what the log needs. For middlewares.
    pub fn take(&mut self) -> Request {
        let mut husk = self.without_body();
        husk.permits = std::mem::take(&mut self.permits);
        std::mem::replace(self, husk)
    }

    fn without_body(&self) -> Request {
        Request {
            method: self.method.clone(),
            version: self.version,
            target: self.target.clone(),
            headers: self.headers.clone(),
            body: Body::Empty,
            facts: self.facts.clone(),
            client_ip: self.client_ip,
            countries: self.countries.clone(),
            scheme: self.scheme,
            upgrade: self.upgrade,
            began_us: self.began_us,
            head_us: self.head_us,
            route: self.route.clone(),
            params: self.params.clone(),
            request_id: self.request_id.clone(),
            trace: self.trace.clone(),
            consumer: self.consumer.clone(),
            claims: self.claims.clone(),
            notes: self.notes.clone(),
            marks: self.marks.clone(),
            attached: self.attached.clone(),
            informer: self.informer.clone(),
            permits: Vec::new(),
            depth: self.depth,
        }
    }

    /// Returns a subrequest: the same client, method, target and fields, without a body and without
    /// the state of this request, such as its route.
    pub fn subrequest(&self) -> Request {
        let mut headers = self.headers.clone();
        for framing in [Known::ContentLength, Known::TransferEncoding, Known::Expect] {
            headers.remove(framing);
        }
        Request {
            method: self.method.clone(),
            version: self.version,
            target: self.target.without_originals(),
            headers,
            facts: self.facts.clone(),
            client_ip: self.client_ip,
            countries: self.countries.clone(),
            scheme: self.scheme,
            request_id: self.request_id.clone(),
            trace: self.trace.clone(),
            depth: self.depth.saturating_add(1),
            ..Request::nothing()
        }
    }

    /// The same request for a background run: without its body, without interim responses and
    /// without a connection to take over. An upstream learns which client it is for.
    pub fn for_background(&self) -> Request {
        let facts = ConnectionFacts { protocol: Protocol::Background, ..(*self.facts).clone() };
        Request {
            facts: Rc::new(facts),
            upgrade: false,
            informer: None,
            notes: Notes::default(),
            ..self.without_body()
        }
    }

    /// The body as one piece, at most `limit` bytes.
    pub async fn collect_body(&mut self, limit: u64) -> Result<Bytes, Fault> {
        self.body.collect(limit).await
    }

    /// Receives the body as one piece, at most `limit` bytes, and keeps it.
    pub async fn buffer_body(&mut self, limit: u64) -> Result<Bytes, Fault> {
        let bytes = self.body.collect(limit).await?;
        self.body = Body::from(bytes.clone());
        Ok(bytes)
    }
}
