//! What a trace has of a route: spans of the stages that wait or surround the rest of it, and steps
//! of those that respond at once.

use message::{HandlerResult, OpenSpan, Recorder, Request, SpanKind};

use super::{Handler, Step};

/// Begins the span of a filter. Boxed: it lives in the future of every request.
#[cold]
pub(super) fn begin_span(recorder: Recorder, name: &'static str) -> Box<OpenSpan> {
    Box::new(recorder.begin(name, SpanKind::Internal))
}

/// Records a filter that has decided about a message at once, for the live log.
#[cold]
pub(super) fn record_step(
    recorder: &Recorder,
    name: &'static str,
    message: &'static str,
    began_us: u64,
    step: &Step,
) {
    recorder.end_step(name, began_us, |span| {
        span.set("tidegate.message", message);
        match step {
            Step::Continue => {}
            Step::Respond(response) => {
                span.set("http.response.status_code", u64::from(response.status));
            }
            Step::Fail(fault) => {
                span.has_failed = true;
                span.set("error.type", fault.slug());
            }
        }
    });
}

/// Begins the span of a stage, if the request is recorded; spans within it belong to it.
#[inline]
pub(super) fn enter_span(request: &mut Request, name: &'static str) -> Option<Box<OpenSpan>> {
    let trace = request.trace.as_mut().filter(|trace| trace.is_recording())?;
    trace.enter(name, SpanKind::Internal).map(Box::new)
}

/// Begins the span of a handler. One that responds at once is a step, as such filters are.
#[inline]
pub(super) fn enter_handler(request: &mut Request, handler: &dyn Handler) -> Option<Box<OpenSpan>> {
    let trace = request.trace.as_ref()?;
    match handler.is_instant() {
        true => trace.open_step(handler.name()),
        false => enter_span(request, handler.name()),
    }
}

/// Ends the span of a stage that has responded.
#[inline]
pub(super) fn end_span(
    span: Option<Box<OpenSpan>>,
    request: &mut Request,
    outcome: &HandlerResult,
) {
    if let Some(span) = span {
        let has_failed = outcome.as_ref().map_or(true, |response| response.status >= 500);
        span.end(&mut request.trace, has_failed);
    }
}
