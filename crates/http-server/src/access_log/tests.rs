//! Tests of which exchanges are logged, and of what a line says.

use super::*;

#[test]
fn a_share_is_logged_and_every_failure() {
    let telemetry = telemetry::Telemetry::new();
    let writer = telemetry::LogWriter::start("test", telemetry::Sink::Stderr, &telemetry).unwrap();
    let drawn = |sample: f64, status: u16| {
        let log = AccessLog::new(writer.ring(), LineFormat::Json, sample, []);
        (0..10_000).filter(|_| log.is_drawn(status, None)).count()
    };
    assert_eq!((drawn(1.0, 200), drawn(0.0, 200), drawn(0.0, 500)), (10_000, 0, 10_000));
    assert!((2_200..2_800).contains(&drawn(0.25, 404)), "{}", drawn(0.25, 404));
}

#[test]
fn secrets_in_queries_are_masked() {
    let masks = Masks::default();
    assert_eq!(masks.masked(b"a=1&Token=abc&key&b=2"), b"a=1&Token=***&key&b=2");
    assert_eq!(masks.masked(b"to%6Ben=abc&%6Bey=a=b&k%zzey=1"), b"to%6Ben=***&%6Bey=***&k%zzey=1");
    assert_eq!(&*masks.masked_url(b"http://a/?b&token=c"), b"http://a/?b&token=***");
    assert_eq!(&*masks.masked_url(b"/token=c"), b"/token=c");
    let masks = Masks::new([CredentialPlace::Query("Our key".to_owned())]);
    assert_eq!(masks.masked(b"our+Key=a&our%20key=b&our=c"), b"our+Key=***&our%20key=***&our=c");
}

#[test]
fn fields_with_credentials_are_secret() {
    let masks = Masks::new([CredentialPlace::Header("x-pass".to_owned())]);
    for secret in ["authorization", "Cookie", "proxy_authorization", "x-api-key", "X-Pass"] {
        assert!(masks.is_secret_field(secret.as_bytes()), "{secret}");
    }
    for shown in ["accept-language", "x-color", "x-keyboard", "x-pass-2", "cookie-policy"] {
        assert!(!masks.is_secret_field(shown.as_bytes()), "{shown}");
    }
}

#[test]
fn a_line_is_json_whatever_was_sent() {
    let mut line = Vec::new();
    let mut object = JsonObject::begin(&mut line);
    object.text("path", b"/\"\\\n\xff");
    object.number("status", 200);
    object.end();
    assert_eq!(
        String::from_utf8(line).unwrap(),
        "{\"path\":\"/\\\"\\\\\\n\u{fffd}\",\"status\":200}"
    );
}

#[test]
fn a_line_says_what_upstream_and_cache_did() {
    let target = message::Target::new(bytes::Bytes::from_static(b"/a")).unwrap();
    let mut request = Request::made_up(wire::Method::Get, target, message::Headers::new());
    request.notes.upstream = Some("10.0.0.1:80".into());
    request.notes.cache = Some("miss");
    let mut line = Vec::new();
    let mut object = JsonObject::begin(&mut line);
    Masks::default().json(&mut object, &request, 200, |_| ());
    let line = String::from_utf8(line).unwrap();
    let said = "\"upstream\":\"10.0.0.1:80\",\"attempts\":0,\"cache\":\"miss\"";
    assert!(line.contains(said), "{line}");
}

#[test]
fn a_consumer_cannot_begin_another_line() {
    let target = message::Target::new(bytes::Bytes::from_static(b"/a")).unwrap();
    let mut request = Request::made_up(wire::Method::Get, target, message::Headers::new());
    request.consumer = Some(message::Consumer::named("ann\n10.0.0.1 - root"));
    let mut line = Vec::new();
    Masks::default().combined(&mut line, &request, 200, |_| (), |_| ());
    let line = String::from_utf8(line).unwrap();
    assert!(line.contains(r" - ann\x0A10.0.0.1 - root [] "), "{line}");
}

#[test]
fn quoted_text_cannot_end_its_quotes() {
    let mut out = Vec::new();
    escape_quoted(&mut out, b"a\"b\\c\r");
    assert_eq!(out, b"a\\\"b\\\\c\\x0D");
}
