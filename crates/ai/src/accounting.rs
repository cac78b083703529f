//! The tokens of requests: what their responses report, or an estimate, counted once for each
//! request.
//!
//! Promises that a response which a client leaves early is counted too, by what has passed, and
//! that a request to which no provider responded costs nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use message::{AiCall, AiTokens, Body, BodyStream, Fault, Frame, Headers, Request, Response};
use plugin::WorkerContext;
use telemetry::{CachePadded, Counter, families};
use wire::Known;

use crate::events::EventStream;
use crate::token_limits::Charge;
use crate::usage::{Usage, UsageScanner};

/// Bytes of text that an estimate takes for a token.
const TOKEN_BYTES: u64 = 4;
/// Pairs of route and group of which a worker stores the counters.
const GROUPS_MAX: usize = 256;

/// Counters of the tokens of a model at a provider, on one worker.
pub(crate) struct TokenCounters {
    provider: String,
    model: String,
    worker: WorkerContext,
    estimated: Arc<CachePadded<Counter>>,
    /// By route and group.
    counters: RefCell<HashMap<RouteAndGroup, Directions>>,
}

type RouteAndGroup = (Rc<str>, Rc<str>);

/// The counters of input and output.
#[derive(Clone)]
struct Directions {
    input: Arc<CachePadded<Counter>>,
    output: Arc<CachePadded<Counter>>,
}

impl TokenCounters {
    pub(crate) fn new(provider: &str, model: &str, worker: &WorkerContext) -> TokenCounters {
        let labels = [provider, model];
        let estimated = &families::AI_ESTIMATED;
        TokenCounters {
            provider: provider.to_owned(),
            model: model.to_owned(),
            estimated: worker.telemetry.worker_counter(worker.index, estimated, &labels),
            worker: worker.clone(),
            counters: RefCell::default(),
        }
    }

    fn directions(&self, route: &Rc<str>, group: &Rc<str>) -> Directions {
        let key = (route.clone(), group.clone());
        if let Some(known) = self.counters.borrow().get(&key) {
            return known.clone();
        }
        let counter = |direction| {
            let labels = [&**route, &*self.provider, &*self.model, &**group, direction];
            let WorkerContext { telemetry, index, .. } = &self.worker;
            telemetry.worker_counter(*index, &families::AI_TOKENS, &labels)
        };
        let made = Directions { input: counter("input"), output: counter("output") };
        let mut counters = self.counters.borrow_mut();
        if counters.len() == GROUPS_MAX {
            counters.clear();
        }
        counters.insert(key, made.clone());
        made
    }

    fn count(&self, route: &Rc<str>, group: &Rc<str>, tokens: AiTokens) {
        let Directions { input, output } = self.directions(route, group);
        input.add(tokens.input.into());
        output.add(tokens.output.into());
        if tokens.is_estimate {
            self.estimated.inc();
        }
    }
}

/// What the tokens of one request are counted in. Dropped without a response, the request was
/// given up by its client, and its own tokens are counted.
pub(crate) struct Account {
    route: Rc<str>,
    /// The first group of the consumer.
    group: Rc<str>,
    charges: Vec<Charge>,
    input_estimate: u32,
    /// The call at the latest provider; `None` once it is settled.
    call: Option<(Rc<AiCall>, Rc<TokenCounters>)>,
}

impl Account {
    pub(crate) fn new(request: &Request, content_bytes: usize, charges: Vec<Charge>) -> Account {
        let route = request.route.as_ref().map_or("", |route| &route.name);
        let groups = request.consumer.as_ref().and_then(|consumer| consumer.groups.first());
        Account {
            route: route.into(),
            group: groups.map_or("", |group| group).into(),
            charges,
            input_estimate: tokens_of(content_bytes as u64),
            call: None,
        }
    }

    /// Notes the provider of an attempt.
    pub(crate) fn begin(&mut self, call: Rc<AiCall>, counters: Rc<TokenCounters>) {
        self.call = Some((call, counters));
    }

    /// Ends without counting: no provider responded.
    pub(crate) fn forgo(&mut self) {
        self.call = None;
    }

    fn report(&self, usage: Usage) {
        if let Some((call, _)) = &self.call {
            call.set_tokens(reported(usage));
        }
    }

    fn settle(&mut self, usage: Option<Usage>, output_estimate: u32) {
        let Some((call, counters)) = self.call.take() else { return };
        let estimate =
            AiTokens { input: self.input_estimate, output: output_estimate, is_estimate: true };
        let tokens = usage.map_or(estimate, reported);
        call.set_tokens(tokens);
        counters.count(&self.route, &self.group, tokens);
        let total = tokens.input.saturating_add(tokens.output);
        for charge in &self.charges {
            charge.add(total);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.settle(None, 0);
    }
}

fn reported(usage: Usage) -> AiTokens {
    AiTokens { input: usage.input, output: usage.output, is_estimate: false }
}

fn tokens_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(TOKEN_BYTES)).unwrap_or(u32::MAX)
}

pub(crate) fn is_event_stream(headers: &Headers) -> bool {
    let events = b"text/event-stream";
    let begin = headers.get(Known::ContentType).and_then(|value| value.get(..events.len()));
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(events))
}

/// How the content of a response is read.
enum Reading {
    Json(UsageScanner),
    Events(EventStream),
    /// Content that cannot be read, because it has a content coding.
    Unread,
}

/// The body of a response on its way to the client, whose tokens are counted.
pub(crate) struct AccountedBody {
    /// A frame that was received already.
    first: Option<Frame>,
    /// `None` once it has ended.
    rest: Option<Body>,
    reading: Reading,
    /// The bytes so far.
    bytes: u64,
    /// False for content that is not text, such as embeddings.
    has_output: bool,
    account: Account,
}

impl AccountedBody {
    /// Wraps the body of a response. `removes_usage` is true if a stream has an event with its
    /// usage for which the client has not asked.
    pub(crate) fn wrap(
        response: &mut Response,
        first: Option<Frame>,
        account: Account,
        removes_usage: bool,
        has_output: bool,
    ) {
        let reading = if response.headers.contains(Known::ContentEncoding) {
            Reading::Unread
        } else if is_event_stream(&response.headers) {
            Reading::Events(EventStream::new(removes_usage))
        } else {
            Reading::Json(UsageScanner::default())
        };
        let rest = Some(std::mem::take(&mut response.body));
        let body = AccountedBody { first, rest, reading, bytes: 0, has_output, account };
        response.body = Body::stream(body);
    }

    fn usage(&self) -> Option<Usage> {
        match &self.reading {
            Reading::Json(scanner) => scanner.usage(),
            Reading::Events(stream) => stream.usage(),
            Reading::Unread => None,
        }
    }

    fn pass(&mut self, data: Bytes) -> Bytes {
        self.bytes += data.len() as u64;
        let before = self.usage();
        let passed = match &mut self.reading {
            Reading::Json(scanner) => {
                scanner.feed(&data);
                data
            }
            Reading::Events(stream) => stream.pass(data),
            Reading::Unread => data,
        };
        // The log may be written, and the next request arrive, before this body is dropped.
        if let Some(usage) = self.usage()
            && Some(usage) != before
        {
            match &self.reading {
                Reading::Events(_) => self.account.report(usage),
                _ => self.account.settle(Some(usage), 0),
            }
        }
        passed
    }

    /// The bytes that were held back.
    fn held(&mut self) -> Bytes {
        match &mut self.reading {
            Reading::Events(stream) => stream.finish(),
            _ => Bytes::new(),
        }
    }

    fn settle(&mut self) {
        let output = match &self.reading {
            _ if !self.has_output => 0,
            // Providers send an event for each token.
            Reading::Events(stream) => stream.events(),
            _ => tokens_of(self.bytes),
        };
        self.account.settle(self.usage(), output);
    }
}

impl BodyStream for AccountedBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        loop {
            let frame = match (self.first.take(), &mut self.rest) {
                (Some(first), _) => Some(Ok(first)),
                (None, Some(rest)) => ready!(rest.poll_frame(cx)),
                (None, None) => return Poll::Ready(None),
            };
            match frame {
                Some(Ok(Frame::Data(data))) => {
                    let passed = self.pass(data);
                    // A body of a known length is not polled again after its last byte.
                    if self.rest.as_ref().is_some_and(|rest| rest.length() == Some(0)) {
                        self.settle();
                    }
                    if !passed.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::Data(passed))));
                    }
                }
                Some(Err(fault)) => {
                    self.rest = None;
                    self.settle();
                    return Poll::Ready(Some(Err(fault)));
                }
                last => {
                    let held = self.held();
                    if last.is_none() {
                        self.rest = None;
                        self.settle();
                    }
                    if held.is_empty() {
                        return Poll::Ready(last);
                    }
                    self.first = last.transpose().ok().flatten();
                    return Poll::Ready(Some(Ok(Frame::Data(held))));
                }
            }
        }
    }

    fn length(&self) -> Option<u64> {
        if let Reading::Events(stream) = &self.reading
            && stream.changes_length()
        {
            return None;
        }
        let first = match &self.first {
            Some(Frame::Data(data)) => data.len() as u64,
            Some(Frame::File(range)) => range.length,
            Some(Frame::Trailers(_)) | None => 0,
        };
        Some(first + self.rest.as_ref().map_or(Some(0), Body::length)?)
    }
}

impl Drop for AccountedBody {
    fn drop(&mut self) {
        self.settle();
    }
}
