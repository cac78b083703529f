//! Tests of which traces are continued, begun and recorded.

use super::*;
use crate::LiveFilter;

const CLIENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn settings(sample: f64) -> TracerSettings {
    TracerSettings {
        sample,
        failures: false,
        slow_us: None,
        accepts_parent: true,
        fields: TraceFields { w3c: true, b3: true, b3_multi: true },
        queue: Some(TraceQueue::new(16, 16)),
    }
}

fn request(fields: &[(&str, &str)]) -> Request {
    let mut headers = Headers::new();
    fields.iter().for_each(|(name, value)| headers.append(*name, value));
    let target = message::Target::new("/a".into()).unwrap();
    Request::made_up(wire::Method::Get, target, headers)
}

fn tracer(settings: TracerSettings) -> Tracer {
    Tracer::new(Some(settings), Arc::default(), [])
}

fn end(status: u16, duration_us: u64) -> RequestEnd {
    RequestEnd { status, duration_us, body_bytes: Some(2) }
}

/// Traces a request, and returns the trace's identity and the client's span, if it continues.
fn begun(settings: &TracerSettings, fields: &[(&str, &str)]) -> (TraceContext, bool) {
    let mut request = request(fields);
    tracer(settings.clone()).begin(&mut request);
    let trace = request.trace.unwrap();
    (trace.context(), trace.parent().is_some())
}

#[test]
fn a_share_of_new_traces_is_sampled() {
    let sampled =
        |sample| (0..2000).filter(|_| begun(&settings(sample), &[]).0.is_sampled()).count();
    assert_eq!((sampled(0.0), sampled(1.0)), (0, 2000));
    assert!((350..650).contains(&sampled(0.25)));
}

#[test]
fn workers_whose_generators_agree_begin_other_traces() {
    let first = || {
        fastrand::seed(7);
        begun(&settings(1.0), &[]).0.trace_id
    };
    assert_ne!(first(), first());
}

#[test]
fn the_decision_depends_on_the_trace_alone() {
    let settings = settings(0.5);
    let mut low = [0xFF; 16];
    low[8] = 0x70;
    assert!(settings.decided(low).is_sampled());
    assert!(!settings.decided([0xFF; 16]).is_sampled());
}

#[test]
fn the_trace_of_a_client_continues() {
    let (context, continues) = begun(&settings(0.0), &[("traceparent", CLIENT)]);
    assert!(continues && context.is_sampled());
    assert_eq!(&context.trace_id_text(), b"4bf92f3577b34da6a3ce929d0e0e4736");
    assert_ne!(&context.span_id_text(), b"00f067aa0ba902b7");
    let unsampled = CLIENT.replace("-01", "-00");
    let (context, continues) = begun(&settings(1.0), &[("traceparent", &unsampled)]);
    assert!(continues && !context.is_sampled());
}

#[test]
fn ambiguous_and_malformed_fields_begin_a_trace() {
    let twice = [("traceparent", CLIENT), ("traceparent", CLIENT)];
    for fields in [&twice[..], &[("traceparent", "00-x")], &[("b3", "1")]] {
        let mut request = request(fields);
        tracer(settings(1.0)).begin(&mut request);
        assert_eq!(request.trace.unwrap().parent(), None, "{fields:?}");
        assert_eq!(request.headers.len(), 0, "they are removed: {fields:?}");
    }
}

#[test]
fn a_tracestate_continues_with_its_traceparent_only() {
    let b3 = ("b3", "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1");
    for (parent, stays) in [(("traceparent", CLIENT), true), (("traceparent", "00-x"), false)] {
        let mut request = request(&[parent, ("tracestate", "a=1"), b3]);
        tracer(settings(1.0)).begin(&mut request);
        assert!(request.trace.unwrap().parent().is_some());
        assert_eq!(request.headers.contains(Known::Tracestate), stays, "{parent:?}");
    }
}

#[test]
fn b3_fields_leave_the_decision_open_or_force_it() {
    let id = [("x-b3-traceid", "64fe8b2a57d3eff7"), ("x-b3-spanid", "e457b5a2e4d86bd1")];
    let with = |field| begun(&settings(0.0), &[id[0], id[1], field]);
    let (context, continues) = with(("x-b3-sampled", "1"));
    assert!(continues && context.is_sampled());
    assert!(with(("x-b3-flags", "1")).0.is_sampled());
    assert!(!with(("x-other", "1")).0.is_sampled());
    assert!(begun(&settings(1.0), &id).0.is_sampled());
}

#[test]
fn a_decision_of_b3_without_a_trace_is_that_of_the_new_trace() {
    for (field, is_sampled) in [
        (("b3", "0"), false),
        (("b3", "1"), true),
        (("b3", "d"), true),
        (("x-b3-sampled", "0"), false),
        (("x-b3-sampled", "1"), true),
        (("x-b3-flags", "1"), true),
    ] {
        // The settings decide the opposite.
        let sample = if is_sampled { 0.0 } else { 1.0 };
        let (context, continues) = begun(&settings(sample), &[field]);
        assert_eq!((context.is_sampled(), continues), (is_sampled, false), "{field:?}");
        let own = TracerSettings { accepts_parent: false, ..settings(sample) };
        assert_eq!(begun(&own, &[field]).0.is_sampled(), !is_sampled, "{field:?}");
        let w3c = TraceFields { w3c: true, ..TraceFields::default() };
        let other = TracerSettings { fields: w3c, ..settings(sample) };
        assert_eq!(begun(&other, &[field]).0.is_sampled(), !is_sampled, "{field:?}");
    }
    let both = [("traceparent", CLIENT), ("b3", "0")];
    assert!(begun(&settings(0.0), &both).0.is_sampled());
    assert!(begun(&settings(1.0), &[("b3", "x"), ("x-b3-sampled", "2")]).0.is_sampled());
}

#[test]
fn failed_and_slow_requests_are_recorded_if_the_settings_say_so() {
    let recorded = |settings: TracerSettings, status, duration_us| {
        let tracer = tracer(settings.clone());
        let mut request = request(&[]);
        tracer.begin(&mut request);
        tracer.end(&request, &end(status, duration_us));
        tracer.end(&request, &end(status, duration_us));
        settings.queue.unwrap().len()
    };
    let failures = || TracerSettings { failures: true, ..settings(0.0) };
    let slow = || TracerSettings { slow_us: Some(500), ..settings(0.0) };
    assert_eq!((recorded(failures(), 503, 1), recorded(failures(), 404, 1)), (1, 0));
    assert_eq!((recorded(slow(), 200, 500), recorded(slow(), 200, 499)), (1, 0));
    assert_eq!((recorded(settings(0.0), 503, 1), recorded(settings(1.0), 200, 1)), (0, 1));
}

#[test]
fn a_watched_request_is_recorded_without_traces_in_the_configuration() {
    let live = Arc::new(LiveLog::default());
    let tracer = Tracer::new(None, live.clone(), []);
    let mut unwatched = request(&[]);
    tracer.begin(&mut unwatched);
    assert!(unwatched.trace.is_none());

    let watch = live.watch(LiveFilter::default()).unwrap();
    let mut watched = request(&[("traceparent", CLIENT)]);
    tracer.begin(&mut watched);
    tracer.end(&watched, &end(200, 7));
    let trace = watch.queue().pop().expect("the request");
    let span = trace.spans.last().expect("the span of the request");
    assert_eq!((&*span.name, span.ended_us - span.began_us), ("GET", 7));
    assert!(!watched.trace.unwrap().is_traced());
    assert!(watched.headers.contains(Known::Traceparent), "it is the client's");
}

#[test]
fn a_request_that_no_client_can_take_is_not_recorded() {
    let live = Arc::new(LiveLog::default());
    let tracer = Tracer::new(None, live.clone(), []);
    let all = live.watch(LiveFilter::default()).unwrap();
    let begin = || {
        let mut request = request(&[]);
        tracer.begin(&mut request);
        tracer.end(&request, &end(200, 1));
        request.trace.is_some()
    };
    while begin() {}
    assert!(all.queue().is_full());
    assert_eq!(all.queue().take_dropped(), 1);

    let failures = LiveFilter { statuses: Some(500..=599), ..LiveFilter::default() };
    let failed = live.watch(failures).unwrap();
    assert!(begin(), "it may fail");
    assert_eq!((all.queue().take_dropped(), failed.queue().take_dropped()), (1, 0));
    drop(failed);
    all.queue().pop();
    let begun = net::clock::precise_us();
    while !begin() {
        let waited_us = net::clock::precise_us() - begun;
        assert!(waited_us < 10_000_000, "there is room, a millisecond after the last one");
    }
}

#[test]
fn one_recording_serves_the_exporter_and_the_live_log() {
    let live = Arc::new(LiveLog::default());
    let watch = live.watch(LiveFilter::default()).unwrap();
    let settings = settings(1.0);
    let tracer = Tracer::new(Some(settings.clone()), live, []);
    let mut request = request(&[]);
    tracer.begin(&mut request);
    let recorder = request.trace.as_ref().unwrap().recorder().expect("spans are recorded");
    let began_us = recorder.begin_step().expect("steps are recorded");
    recorder.end_step("a filter", began_us, |_| {});
    tracer.end(&request, &end(200, 1));
    let watched = watch.queue().pop().unwrap();
    let names: Vec<_> = watched.spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["request head", "a filter", "response body", "GET"]);
    assert_eq!(settings.queue.unwrap().pop().unwrap().spans, 1);
}
