//! `mock`: a made-up response instead of the handler's, from templates.
//!
//! Values of the request in a body of JSON, HTML or XML are escaped, so that a client cannot write
//! syntax of its own into it.

mod template;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration as Span;

use message::{Body, Headers, Request, Response};
use plugin::{
    Condition, Filter, FilterKind, FilterPlan, HeaderName, MaybeFuture, RouteNames, Stage, Step,
    WorkerContext,
};
use settings::{Duration, Named, Node, Percent, Reader, Setting};
use telemetry::{CachePadded, Counter, families};
use wire::Known;

use crate::share::{Share, Spread};
use template::{Escape, MockTemplate};

pub(crate) const KIND: FilterKind = FilterKind { name: "mock", schema: Mock::schema, read };

/// Responds with a made-up response, so that clients can be written before the service is.
///
/// Headers and body may hold variables of the request and generators, new for each response:
/// `{random.int 1 100}`, `{random.float 0 1}`, `{random.bool}`, `{random.uuid}`, `{random.hex 16}`,
/// `{random.word}`, `{random.name}`, `{random.email}`, `{random.phone}`, `{random.of red|green}`
/// and `{random.time}`, a time of the last year. Braces of JSON are written twice: `{{"id": 1}}`.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct Mock {
    /// The status.
    #[setting(default = 200, range = 200..=599)]
    status: u16,
    /// Header fields.
    #[setting(example = { "content-type": "application/json" })]
    headers: Option<Named<MockTemplate>>,
    /// The content. Under a content type of JSON, HTML or XML, values of the request are escaped.
    #[setting(default = "", example = "order {path.id}: {random.of open|paid|sent}")]
    body: MockTemplate,
    /// Waits before it responds.
    #[setting(range = "0s"..="5m", example = "20ms")]
    delay: Option<Duration>,
    /// How many of the requests; the others continue.
    #[setting(default = "100%")]
    share: Percent,
    /// Only requests for which this holds.
    when: Option<Condition>,
}

fn check(settings: &Mock, _: &Node, reader: &mut Reader<'_>) {
    for (name, _) in settings.headers.iter().flat_map(|headers| &headers.entries) {
        if let Err(error) = name.value.parse::<HeaderName>() {
            reader.error(name.span, format!("\"{}\" {error}", name.value));
        }
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let settings = Mock::read(node, reader)?;
    let written = settings.headers.map(|headers| headers.entries).unwrap_or_default();
    let mut headers: Vec<(HeaderName, MockTemplate)> = written
        .into_iter()
        .filter_map(|(name, value)| Some((name.value.parse().ok()?, value)))
        .collect();
    let is_type = |(name, _): &&(HeaderName, MockTemplate)| name.as_str() == "content-type";
    let escape = match headers.iter().find(is_type) {
        Some((_, content_type)) => Escape::of(content_type.literal().unwrap_or_default()),
        None => {
            let name = "content-type".parse().ok()?;
            headers.push((name, MockTemplate::text("text/plain; charset=utf-8")));
            Escape::None
        }
    };
    Some(Arc::new(MockPlan(Arc::new(MockResponse {
        status: settings.status,
        headers,
        body: settings.body,
        escape,
        delay: settings.delay.map(|delay| delay.get()),
        share: settings.share,
        when: settings.when,
    }))))
}

struct MockPlan(Arc<MockResponse>);

struct MockResponse {
    status: u16,
    headers: Vec<(HeaderName, MockTemplate)>,
    body: MockTemplate,
    escape: Escape,
    delay: Option<Span>,
    share: Percent,
    when: Option<Condition>,
}

impl FilterPlan for MockPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        self.build_on(RouteNames::default(), worker)
    }

    fn build_on(&self, route: RouteNames<'_>, worker: &WorkerContext) -> Stage {
        Stage::Filter(Rc::new(MockFilter {
            response: self.0.clone(),
            share: Share::new(self.0.share),
            points: Spread::new(),
            responses: worker.telemetry.worker_counter(
                worker.index,
                &families::MOCKED,
                &[route.shown],
            ),
        }))
    }

    fn needs_authentication(&self) -> bool {
        self.0.when.as_ref().is_some_and(Condition::needs_authentication)
    }

    fn describe(&self) -> String {
        let when = if self.0.when.is_some() { ", under a condition" } else { "" };
        format!("{} for {}{when}", self.0.status, self.0.share)
    }
}

struct MockFilter {
    response: Arc<MockResponse>,
    share: Share,
    points: Spread,
    responses: Arc<CachePadded<Counter>>,
}

impl Filter for MockFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        self.response.delay.is_none()
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let meant = self.response.when.as_ref().is_none_or(|when| when.holds(request));
        if !meant || !self.share.contains(self.points.next()) {
            return Step::Continue.into();
        }
        self.responses.inc();
        let response = self.make(request);
        match self.response.delay {
            None => Step::Respond(response).into(),
            Some(delay) => MaybeFuture::of(async move {
                net::timer::sleep_precisely(delay).await;
                Step::Respond(response)
            }),
        }
    }
}

impl MockFilter {
    fn make(&self, request: &Request) -> Response {
        let MockResponse { status, headers, body, escape, .. } = &*self.response;
        let mut response = Response::new(*status);
        let mut fields = Headers::new();
        for (name, value) in headers {
            let mut text = Vec::new();
            value.append(request, Escape::None, &mut text);
            fields.append(name, text);
        }
        let mut content = Vec::new();
        body.append(request, *escape, &mut content);
        if content.is_empty() {
            fields.remove(Known::ContentType);
        }
        response.headers = fields;
        response.body = Body::from(bytes::Bytes::from(content));
        response
    }
}

#[cfg(test)]
mod tests;
