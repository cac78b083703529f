//! `/v1/log`: finished requests as they happen, a JSON object on a line each.
//!
//! Promises that a client that reads slowly delays no request: what finds no room is dropped, and
//! a line `{"dropped": 3}` says so. At most [`LINES_PER_PAUSE`] requests are converted at a time,
//! so that the control thread has time for its other work.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_server::{LIVE_CLIENTS_MAX, LiveFilter, LiveWatch};
use message::{
    AttributeValue, Attributes, Body, BodyStream, Fault, FinishedTrace, Frame, LocalFuture,
    Response, Span,
};
use plugin::Condition;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use settings::nearest;
use upstream::StatusRange;
use wire::target;

use crate::access::Caller;
use crate::control::Control;
use crate::endpoints::Guard;
use crate::limits::{LINES_PER_PAUSE, LOG_CONDITIONS, LOG_PAUSE, LOG_RULES, LOG_SILENCE};
use crate::messages::{ApiResult, time};
use crate::problem::Problem;
use crate::sessions::Sessions;

/// Begins to watch, and responds with what happens from now on; until the session of the client
/// ends, if it has one, or its token does not allow it any more.
pub(crate) fn follow(
    control: &Rc<dyn Control>,
    (caller, sessions): (&Caller, &Rc<Sessions>),
    query: Option<&[u8]>,
) -> ApiResult {
    let Some(log) = control.live_log() else {
        let detail = "requests are served by the processes of an application, which have no live \
                      log";
        return Err(Problem::new(409, detail)
            .advice("the live log shows requests of a gateway: `tidegate up` with `apps`"));
    };
    let wanted = Wanted::read(&**control, query)?;
    let Some(watch) = log.watch(wanted.filter) else {
        let detail = format!("{LIVE_CLIENTS_MAX} clients watch already, which is the limit");
        return Err(Problem::new(503, detail).advice("end one of them"));
    };
    let source = Rc::new(Source {
        watch,
        control: control.clone(),
        caller: caller.clone(),
        sessions: sessions.clone(),
        remaining: Cell::new(wanted.count),
        is_begun: Cell::new(false),
        rules: RefCell::default(),
    });
    let lines = Lines { next: Box::pin(source.clone().next()), source };
    let mut response = Response::new(200);
    response.headers.append("content-type", "application/x-ndjson");
    response.body = Body::stream(lines);
    Ok(response)
}

/// The parameters of a request.
struct Wanted {
    filter: LiveFilter,
    /// The number of requests after which the response ends.
    count: u64,
}

impl Wanted {
    fn read(control: &dyn Control, query: Option<&[u8]>) -> Result<Wanted, Problem> {
        let mut wanted = Wanted { filter: LiveFilter::default(), count: u64::MAX };
        let filter = &mut wanted.filter;
        for (name, value) in target::query_pairs(query.unwrap_or_default()) {
            let value = String::from_utf8_lossy(&value);
            let invalid =
                |why: &str| Problem::new(400, format!("{}: {value:?} {why}", shown(&name)));
            match &*name {
                b"route" => {
                    check_route(control, &value)?;
                    filter.route = Some(value.into_owned());
                }
                b"status" => filter.statuses = Some(statuses(&value).map_err(|why| invalid(&why))?),
                b"slow" => {
                    let slow: settings::Duration =
                        value.parse().map_err(|why: String| invalid(&why))?;
                    filter.slow_us = Some(slow.as_millis_u64().saturating_mul(1000));
                }
                b"where" if filter.conditions.len() == LOG_CONDITIONS => {
                    let detail = format!("more than {LOG_CONDITIONS} conditions");
                    return Err(Problem::new(400, detail));
                }
                b"where" => {
                    let read = Condition::parse_expression(&value);
                    let condition = read.map_err(|why| {
                        Problem::new(400, format!("where: {why}"))
                            .advice("write a condition as in header.x-user == \"7\"")
                    })?;
                    filter.conditions.push(condition);
                }
                b"count" => {
                    let count = value.parse::<u64>().ok().filter(|count| *count > 0);
                    wanted.count = count.ok_or_else(|| invalid("is not a number above 0"))?;
                }
                // Unknown names were rejected by the table of endpoints.
                _ => {}
            }
        }
        Ok(wanted)
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn check_route(control: &dyn Control, name: &str) -> Result<(), Problem> {
    let routes = control.routes();
    if routes.iter().any(|route| route.name == name) {
        return Ok(());
    }
    let problem = Problem::new(404, format!("there is no route {name:?}"));
    Err(match nearest(name, routes.iter().map(|route| &*route.name)) {
        Some(near) => problem.advice(format!("did you mean {near:?}?")),
        None => problem,
    })
}

/// `5xx`, `404` or `400-499`.
fn statuses(text: &str) -> Result<RangeInclusive<u16>, String> {
    if let Some(class) = text.strip_suffix("xx").filter(|class| class.len() == 1)
        && let Ok(class @ 1..=5) = class.parse::<u16>()
    {
        return Ok(class * 100..=class * 100 + 99);
    }
    let range: StatusRange =
        text.parse().map_err(|why| format!("{why}, nor a class such as 5xx"))?;
    Ok(range.first..=range.last)
}

/// What the lines are made from.
struct Source {
    watch: LiveWatch,
    control: Rc<dyn Control>,
    caller: Caller,
    sessions: Rc<Sessions>,
    remaining: Cell<u64>,
    is_begun: Cell<bool>,
    rules: RefCell<Rules>,
}

/// What the routes seen so far match, in one version of the configuration.
#[derive(Default)]
struct Rules {
    version: String,
    of_routes: BTreeMap<String, String>,
}

impl Source {
    /// The next lines; `None` at the end. An empty line says that the server is still there.
    async fn next(self: Rc<Self>) -> Option<Bytes> {
        if !self.is_begun.replace(true) {
            return Some(Bytes::from_static(b"\n"));
        }
        let mut silence = Duration::ZERO;
        while self.remaining.get() > 0 {
            net::timer::sleep(LOG_PAUSE).await;
            if !self.caller.is_still_allowed(Guard::Read, &self.sessions) {
                return None;
            }
            silence += LOG_PAUSE;
            let lines = self.lines();
            if !lines.is_empty() {
                return Some(lines.into());
            }
            if silence >= LOG_SILENCE {
                return Some(Bytes::from_static(b"\n"));
            }
        }
        None
    }

    fn lines(&self) -> Vec<u8> {
        let queue = self.watch.queue();
        let mut lines = Vec::new();
        for _ in 0..LINES_PER_PAUSE {
            if self.remaining.get() == 0 {
                break;
            }
            let Some(trace) = queue.pop() else { break };
            self.remaining.set(self.remaining.get() - 1);
            let Some((request, parts)) = trace.spans.split_last() else { continue };
            let line = line(&trace, request, parts, self.rule(request));
            // Texts with names are always JSON, and memory takes them.
            let _ = serde_json::to_writer(&mut lines, &line);
            lines.push(b'\n');
        }
        let dropped = queue.take_dropped();
        if dropped > 0 {
            lines.extend_from_slice(format!("{{\"dropped\":{dropped}}}\n").as_bytes());
        }
        lines
    }

    /// What the route of a request matches; a few of them are remembered, because asking searches
    /// all routes.
    fn rule(&self, request: &Span) -> Option<String> {
        let is_route = |(name, _): &(&str, _)| *name == "tidegate.route";
        let AttributeValue::Text(route) = request.attributes.iter().find(is_route)?.1 else {
            return None;
        };
        let version = self.control.config_version();
        let mut rules = self.rules.borrow_mut();
        if rules.version != version {
            *rules = Rules { version, of_routes: BTreeMap::new() };
        }
        if let Some(rule) = rules.of_routes.get(&*route) {
            return Some(rule.clone());
        }
        let rule = self.control.route_rule(&route)?;
        if rules.of_routes.len() >= LOG_RULES {
            rules.of_routes.clear();
        }
        rules.of_routes.insert(route.into_owned(), rule.clone());
        Some(rule)
    }
}

/// The body of the response.
struct Lines {
    source: Rc<Source>,
    next: LocalFuture<'static, Option<Bytes>>,
}

impl BodyStream for Lines {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let Poll::Ready(lines) = self.next.as_mut().poll(cx) else { return Poll::Pending };
        self.next = Box::pin(self.source.clone().next());
        Poll::Ready(lines.map(|lines| Ok(Frame::Data(lines))))
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

/// A finished request.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    trace_id: String,
    duration_us: u64,
    failed: bool,
    attributes: Shown<'a>,
    /// What its route matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#match: Option<String>,
    /// In the order in which they began.
    steps: Vec<Step<'a>>,
    steps_dropped: u32,
}

/// A part of a request.
#[derive(Serialize)]
struct Step<'a> {
    name: &'a str,
    /// Since the request began: its connection may have been accepted before.
    at_us: i64,
    took_us: u64,
    /// How many other parts surround it.
    depth: usize,
    failed: bool,
    attributes: Shown<'a>,
}

fn line<'a>(
    trace: &'a FinishedTrace,
    request: &'a Span,
    parts: &'a [Span],
    r#match: Option<String>,
) -> Line<'a> {
    let signed = |us: u64| i64::try_from(us).unwrap_or(i64::MAX);
    let step = |span: &'a Span| Step {
        name: &span.name,
        at_us: signed(span.began_us) - signed(request.began_us),
        took_us: span.ended_us.saturating_sub(span.began_us),
        depth: depth(span, parts),
        failed: span.has_failed,
        attributes: Shown(&span.attributes),
    };
    let mut steps: Vec<Step<'_>> = parts.iter().map(step).collect();
    // Parts are recorded when they end.
    steps.sort_by_key(|step| (step.at_us, step.depth));
    let unix_us = request.began_us.saturating_add(trace.clock_offset_us);
    Line {
        time: time(unix_us / 1000),
        trace_id: String::from_utf8_lossy(&trace.context.trace_id_text()).into_owned(),
        duration_us: request.ended_us.saturating_sub(request.began_us),
        failed: request.has_failed,
        attributes: Shown(&request.attributes),
        r#match,
        steps,
        steps_dropped: trace.dropped,
    }
}

/// How many parts of the request surround this one.
fn depth(span: &Span, parts: &[Span]) -> usize {
    let mut depth = 0;
    let mut inner = span;
    // A parent that was not recorded, because there were too many, ends the chain, as the request
    // itself does.
    while let Some(outer) = parts.iter().find(|part| !part.is_step && Some(part.id) == inner.parent)
        && depth < parts.len()
    {
        depth += 1;
        inner = outer;
    }
    depth
}

/// The attributes of a span as an object.
struct Shown<'a>(&'a Attributes);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        for (name, value) in self.0.iter() {
            match value {
                AttributeValue::Text(text) => object.serialize_entry(name, &*text)?,
                AttributeValue::Number(number) => object.serialize_entry(name, &number)?,
            }
        }
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::CallerKind;
    use crate::testing::{FakeServer, text};
    use config::AdminRole;
    use message::{Recording, RequestTrace, SpanKind};
    use serde_json::json;
    use wire::trace_context::TraceContext;

    fn span(id: u8, parent: u8, times: (u64, u64), name: &'static str) -> Span {
        Span {
            id: [id; 8],
            parent: Some([parent; 8]),
            name: name.into(),
            kind: SpanKind::Internal,
            began_us: times.0,
            ended_us: times.1,
            attributes: Attributes::default(),
            has_failed: false,
            is_step: id == 0,
        }
    }

    fn finished(spans: Vec<Span>) -> FinishedTrace {
        let context = TraceContext::new([1; 16], [1; 8], true);
        let trace = RequestTrace::begin(context, None, None, Recording::Steps).take();
        FinishedTrace { spans, clock_offset_us: 0, ..trace }
    }

    #[test]
    fn parts_are_in_the_order_in_which_they_began() {
        let mut request = span(1, 9, (1000, 5000), "GET shop");
        request.set("url.path", "/a");
        request.set("http.response.status_code", 200_u64);
        let mut attempt = span(3, 2, (2100, 4000), "upstream attempt");
        attempt.has_failed = true;
        let spans = vec![
            attempt,
            span(2, 1, (2000, 4100), "upstream"),
            span(0, 1, (1500, 1501), "headers"),
            span(0, 1, (400, 400), "accept"),
            request,
        ];
        let trace = finished(spans);
        let (request, parts) = trace.spans.split_last().unwrap();
        let object = serde_json::to_value(line(&trace, request, parts, None)).unwrap();
        let steps: Vec<(&str, i64, u64)> = object["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| {
                (
                    step["name"].as_str().unwrap(),
                    step["at_us"].as_i64().unwrap(),
                    step["depth"].as_u64().unwrap(),
                )
            })
            .collect();
        let expected = [
            ("accept", -600, 0),
            ("headers", 500, 0),
            ("upstream", 1000, 0),
            ("upstream attempt", 1100, 1),
        ];
        assert_eq!(steps, expected);
        assert_eq!(object["steps"][3]["failed"], true);
        assert_eq!(
            (&object["duration_us"], &object["attributes"]["url.path"]),
            (&json!(4000), &json!("/a"))
        );
    }

    #[test]
    fn a_part_whose_parent_was_not_recorded_has_a_depth() {
        let (first, second) = (span(2, 3, (0, 0), "a"), span(3, 2, (0, 0), "b"));
        let circle = [first, second];
        assert_eq!(depth(&span(5, 7, (0, 0), "c"), &circle), 0);
        assert_eq!(depth(&span(5, 2, (0, 0), "c"), &circle), 2, "a circle ends");
    }

    #[test]
    fn statuses_and_classes() {
        assert_eq!(statuses("5xx"), Ok(500..=599));
        assert_eq!(statuses("404"), Ok(404..=404));
        assert_eq!(statuses("400-499"), Ok(400..=499));
        for wrong in ["6xx", "xx", "20", "5x", "+5xx "] {
            assert!(statuses(wrong).unwrap_err().contains("5xx"), "{wrong}");
        }
    }

    fn socket() -> Caller {
        Caller { name: String::new(), role: AdminRole::All, by: CallerKind::Socket }
    }

    fn rejected(query: &str) -> String {
        let control: Rc<dyn Control> = Rc::new(FakeServer::new());
        let client = (&socket(), &Rc::default());
        let problem = follow(&control, client, Some(query.as_bytes())).err().expect(query);
        text(&mut Response::from(problem))
    }

    #[test]
    fn wrong_parameters_are_named() {
        for (query, part) in [
            ("status=6xx", r#"status: \"6xx\" is not a status"#),
            ("slow=200", "has no unit"),
            ("count=0", r#"count: \"0\" is not a number above 0"#),
            ("where=haeder.x%20==%201", "header.x"),
            ("route=shpo", "there is no route"),
        ] {
            let why = rejected(query);
            assert!(why.contains(part), "{query}: {why}");
        }
        assert!(rejected(&"where=path&".repeat(LOG_CONDITIONS + 1)).contains("conditions"));
    }

    #[test]
    fn the_number_of_clients_is_limited() {
        let control: Rc<dyn Control> = Rc::new(FakeServer::new());
        let sessions = Rc::default();
        let follow = || follow(&control, (&socket(), &sessions), None);
        let watching: Vec<_> = (0..LIVE_CLIENTS_MAX).map(|_| follow()).collect();
        assert!(watching.iter().all(Result::is_ok));
        let problem = follow().err().expect("one too many");
        assert_eq!(Response::from(problem).status, 503);
        drop(watching);
        assert!(follow().is_ok());
    }
}
