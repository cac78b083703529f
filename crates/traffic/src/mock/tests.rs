//! Each setting and each generator of `mock`.

use std::time::Duration;

use message::{Body, Response};
use net::manual_time;
use plugin::testing::{context, errors, filter, filter_in, get, plan};
use plugin::{Filter, MaybeFuture, Step};
use settings::node;
use telemetry::families;
use wire::Known;

use super::KIND;

#[test]
fn the_declaration_is_valid() {
    settings::verify::<super::Mock>().unwrap();
}

fn response(mock: &dyn Filter, target: &str, headers: &[(&str, &str)]) -> Option<Response> {
    match mock.on_request(&mut get(target, headers)) {
        MaybeFuture::Ready(Step::Respond(response)) => Some(response),
        MaybeFuture::Ready(Step::Continue) => None,
        _ => panic!("waits or fails"),
    }
}

fn content(response: Response) -> String {
    match response.body {
        Body::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Body::Empty => String::new(),
        _ => panic!("another body"),
    }
}

fn body(template: &str) -> String {
    content(response(&*filter(&KIND, &node!({ "body": template })), "/", &[]).unwrap())
}

#[test]
fn status_headers_and_body_come_from_templates() {
    let settings = node!({
        "status": 201,
        "headers": { "x-user": "{query.user}", "location": "/orders/{random.hex 8}" },
        "body": "for {query.user} at {host}",
    });
    let mock = filter(&KIND, &settings);
    let made = response(&*mock, "/?user=ann", &[("host", "shop.example")]).unwrap();
    assert_eq!(made.status, 201);
    assert_eq!(made.headers.get_str("x-user"), Some("ann"));
    assert_eq!(made.headers.get_str("location").map(str::len), Some("/orders/".len() + 8));
    assert_eq!(made.headers.get_str(Known::ContentType), Some("text/plain; charset=utf-8"));
    assert_eq!(content(made), "for ann at shop.example");
}

#[test]
fn values_in_json_are_escaped() {
    let settings = node!({
        "headers": { "content-type": "application/json" },
        "body": "{{\"user\": \"{query.user}\"}}",
    });
    let made = response(&*filter(&KIND, &settings), "/?user=a%22,%22admin%22:%22%0A%5C", &[]);
    assert_eq!(content(made.unwrap()), r#"{"user": "a\",\"admin\":\"\u000a\\"}"#);
}

#[test]
fn values_in_markup_are_escaped() {
    for content_type in ["text/html; charset=utf-8", "TEXT/HTML", "application/xml"] {
        let settings = node!({
            "headers": { "content-type": (content_type) },
            "body": "<p title='{query.user}'>{query.user}</p>",
        });
        let made = response(&*filter(&KIND, &settings), "/?user=%3Cb%3E'%26", &[]);
        let expected = "<p title='&lt;b&gt;&#39;&amp;'>&lt;b&gt;&#39;&amp;</p>";
        assert_eq!(content(made.unwrap()), expected, "{content_type}");
    }
}

#[test]
fn generators_make_what_they_say() {
    for (template, fits) in [
        ("{random.int 5 7}", (|text| (5..=7).contains(&text.parse().unwrap())) as fn(&str) -> bool),
        ("{random.int -3 -3}", |text| text == "-3"),
        ("{random.float 1 2}", |text| (1.0..=2.0).contains(&text.parse().unwrap())),
        ("{random.bool}", |text| ["true", "false"].contains(&text)),
        ("{random.uuid}", |text| {
            text.len() == 36 && &text[14..15] == "4" && "89ab".contains(&text[19..20])
        }),
        ("{random.hex 16}", |text| text.len() == 16 && u64::from_str_radix(text, 16).is_ok()),
        ("{random.word}", |text| text.bytes().all(|byte| byte.is_ascii_lowercase())),
        ("{random.name}", |text| text.contains(' ')),
        ("{random.email}", |text| text.ends_with("@example.com")),
        ("{random.phone}", |text| text.starts_with("+1-555-01")),
        ("{random.of red|green}", |text| ["red", "green"].contains(&text)),
        ("{random.time}", |text| text.parse::<jiff::Timestamp>().is_ok()),
        ("a{random.int 1 1}b{random.of c}", |text| text == "a1bc"),
        ("{{random.int 1 1}}", |text| text == "{random.int 1 1}"),
    ] {
        for _ in 0..20 {
            let made = body(template);
            assert!(fits(&made), "{template}: {made}");
        }
    }
    let all: std::collections::HashSet<_> = (0..200).map(|_| body("{random.int 1 6}")).collect();
    assert_eq!(all.len(), 6);
}

#[test]
fn share_condition_and_count() {
    let context = context();
    let settings = node!({ "share": "25%", "when": { "header": "x-mock" } });
    let mock = filter_in(&KIND, &settings, &context);
    let made =
        |field| (0..1000).filter(|_| response(&*mock, "/", &[(field, "1")]).is_some()).count();
    assert_eq!(made("x-other"), 0);
    let mocked = made("x-mock");
    assert!((248..=252).contains(&mocked), "{mocked}");
    let counted = context.telemetry.worker_counter(0, &families::MOCKED, &[""]).get();
    assert_eq!(counted, mocked as u64);
    // Without content there is no type of it.
    let empty = response(&*filter(&KIND, &node!({})), "/", &[]).unwrap();
    assert!(empty.headers.is_empty() && empty.body.is_empty());
}

#[test]
fn a_delay_lasts_as_long_as_set() {
    manual_time::block_on(async {
        let mock = filter(&KIND, &node!({ "delay": "20ms" }));
        assert!(!mock.is_instant());
        let task = net::task::spawn_local(async move {
            let mut request = get("/", &[]);
            let MaybeFuture::Future(step) = mock.on_request(&mut request) else { panic!("ready") };
            assert!(matches!(step.await, Step::Respond(_)));
        });
        manual_time::advance(Duration::from_millis(19)).await;
        assert!(!task.is_finished());
        manual_time::advance(Duration::from_millis(1)).await;
        assert!(task.is_finished());
    });
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({ "body": "{random.itn 1 2}" }), "did you mean \"random.int\"?"),
        (node!({ "body": "{random.int 2 1}" }), "is not {random.int 1 100}"),
        (node!({ "body": "{random.hex 999}" }), "is not {random.hex 16}"),
        (node!({ "body": "{random.uuid 4}" }), "is not {random.uuid}"),
        (node!({ "body": "{hosd}" }), "host"),
        (node!({ "headers": { "a b": "c" } }), "a b"),
        (node!({ "status": 101 }), "between 200 and 599"),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
    assert_eq!(plan(&KIND, &node!({})).unwrap().describe(), "200 for 100%");
}
