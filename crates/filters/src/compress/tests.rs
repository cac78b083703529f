//! Which responses are compressed, and how their fields change.

use coding::{Decode, Decoder, decode_all};
use message::{BodyStream, Fault, Frame};
use net::FileRange;
use settings::{Node, node};

use super::*;
use crate::testing::{context, errors, filter, filter_in, get, passed, plan};
use streams::Source;

mod streams;

const LIMIT: Decode = Decode { output_bytes: 64 << 20, ratio: 100_000 };

fn text(length: usize) -> String {
    const TEXT: &str = "All work and no play makes Jack a dull boy. ";
    let mut text = TEXT.repeat(length.div_ceil(TEXT.len()));
    text.truncate(length);
    text
}

fn html(body: impl Into<Body>) -> Response {
    Response::with_body(200, "text/html; charset=utf-8", body)
}

/// The response to a client that accepts these codings.
async fn filtered(filter: &dyn Filter, accept: &str, mut response: Response) -> Response {
    let mut request = get("/", &[("accept-encoding", accept)]);
    run(filter, &mut request, &mut response).await;
    response
}

async fn run(filter: &dyn Filter, request: &mut Request, response: &mut Response) {
    let step = filter.on_response(request, response).resolve().await;
    passed(step.into()).unwrap();
}

fn coding_of(response: &Response) -> &str {
    response.headers.get_str(Known::ContentEncoding).unwrap_or("")
}

async fn content(response: &mut Response) -> Vec<u8> {
    response.body.collect(u64::MAX).await.unwrap().to_vec()
}

/// The content, decoded as its fields declare.
async fn decoded(response: &mut Response) -> Vec<u8> {
    let coding = Coding::parse(coding_of(response));
    let content = content(response).await;
    match coding {
        Some(coding) => decode_all(coding, &content, LIMIT).unwrap(),
        None => content,
    }
}

fn test(body: impl Future<Output = ()>) {
    net::worker::block_on_local(body);
}

#[test]
fn the_declaration_is_valid() {
    settings::verify::<Compress>().unwrap();
}

#[test]
fn the_client_decides_and_then_the_order() {
    let compress = filter(&KIND, &node!({}));
    let gzip_first = filter(&KIND, &node!({ "codings": ["gzip", "zstd"] }));
    test(async {
        for (accept, wanted, wanted_of_two) in [
            ("gzip, deflate, br, zstd", "zstd", "gzip"),
            ("gzip;q=0.5, br", "br", "gzip"),
            ("br;q=0.2, gzip;q=0.9", "gzip", "gzip"),
            ("*", "zstd", "gzip"),
            ("*;q=0.1, zstd;q=0", "br", "gzip"),
            ("gzip;q=0", "", ""),
            ("identity, gzip;q=0.5", "", ""),
            ("deflate", "", ""),
            ("", "", ""),
        ] {
            for (filter, wanted) in [(&compress, wanted), (&gzip_first, wanted_of_two)] {
                let mut response = filtered(&**filter, accept, html(text(5000))).await;
                assert_eq!(coding_of(&response), wanted, "{accept}");
                assert_eq!(response.headers.get_str(Known::Vary), Some("Accept-Encoding"));
                assert_eq!(decoded(&mut response).await, text(5000).as_bytes());
            }
        }
        let mut response = html(text(5000));
        run(&*compress, &mut get("/", &[]), &mut response).await;
        assert_eq!(coding_of(&response), "", "a client without the field gets it plain");
        let twice = [("accept-encoding", "br;q=0"), ("accept-encoding", "gzip")];
        let mut response = html(text(5000));
        run(&*compress, &mut get("/", &twice), &mut response).await;
        assert_eq!(coding_of(&response), "gzip");
    });
}

#[test]
fn every_size_round_trips() {
    let compress = filter(&KIND, &node!({}));
    test(async {
        for length in
            [1024, ON_WORKER_BYTES, ON_WORKER_BYTES + 1, AS_WHOLE_BYTES, AS_WHOLE_BYTES + 1]
        {
            for accept in ["gzip", "br", "zstd"] {
                let mut response = filtered(&*compress, accept, html(text(length))).await;
                assert_eq!(coding_of(&response), accept, "{length}");
                assert_eq!(response.body.length().is_some(), length <= AS_WHOLE_BYTES);
                assert!(
                    decoded(&mut response).await == text(length).as_bytes(),
                    "{length} {accept}"
                );
            }
        }
    });
}

#[test]
fn responses_that_must_not_be_coded_are_unchanged() {
    let compress = filter(&KIND, &node!({}));
    type Change = fn(&mut Response);
    let changes: &[(&str, Change)] = &[
        ("coded already", |r| r.headers.append(Known::ContentEncoding, "gzip")),
        ("no-transform", |r| r.headers.append(Known::CacheControl, "public, no-transform")),
        ("a part", |r| r.status = 206),
        ("a part by its field", |r| r.headers.append(Known::ContentRange, "bytes 0-4999/9999")),
        ("not modified", |r| r.status = 304),
        ("no content", |r| r.status = 204),
        ("another type", |r| r.headers.set(Known::ContentType, "image/png")),
        ("no type", |r| r.headers.retain(|field| field.known != Some(Known::ContentType))),
        ("too small", |r| r.body = Body::from(text(1023))),
    ];
    test(async {
        for (why, change) in changes {
            let mut response = html(text(5000));
            response.headers.append(Known::Etag, "\"x\"");
            change(&mut response);
            let before = format!("{:?}", (&response.headers, &response.body));
            let response = filtered(&*compress, "gzip", response).await;
            assert_eq!(format!("{:?}", (&response.headers, &response.body)), before, "{why}");
        }
        let mut response = html(text(5000));
        let fields = [("accept-encoding", "gzip"), ("cache-control", "no-transform")];
        run(&*compress, &mut get("/", &fields), &mut response).await;
        assert_eq!(coding_of(&response), "");
        let identity = |mut response: Response| {
            response.headers.append(Known::ContentEncoding, "identity");
            response
        };
        let response = filtered(&*compress, "gzip", identity(html(text(5000)))).await;
        assert_eq!(coding_of(&response), "gzip");
    });
}

#[test]
fn head_has_the_fields_of_get() {
    let compress = filter(&KIND, &node!({}));
    let fields = |response: &Response| {
        let field = |name| response.headers.get_str(name).unwrap_or("").to_owned();
        [Known::ContentEncoding, Known::Etag, Known::ContentLength, Known::Vary].map(field)
    };
    test(async {
        // As an upstream responds to it, with a length and without; as `files` and others do.
        for (body, length) in [
            (Body::Empty, Some("5000")),
            (Body::Empty, None),
            (Body::stream(Source::new(vec![Some("never read")])), None),
            (Body::from(text(5000)), None),
        ] {
            let mut request = get("/", &[("accept-encoding", "gzip")]);
            request.method = Method::Head;
            let mut response = html(body);
            response.headers.append(Known::Etag, "\"x\"");
            if let Some(length) = length {
                response.headers.append(Known::ContentLength, length);
            }
            run(&*compress, &mut request, &mut response).await;
            assert_eq!(fields(&response), ["gzip", "W/\"x\"", "", "Accept-Encoding"]);
        }
        // Too short to be compressed for GET, so the length stays.
        let mut request = get("/", &[("accept-encoding", "gzip")]);
        request.method = Method::Head;
        let mut response = html(Body::Empty);
        response.headers.append(Known::ContentLength, "500");
        run(&*compress, &mut request, &mut response).await;
        assert_eq!(fields(&response), ["", "", "500", ""]);
    });
}

#[test]
fn the_fields_are_those_of_another_representation() {
    let compress = filter(&KIND, &node!({}));
    test(async {
        for (etag, weak) in [("\"x\"", "W/\"x\""), ("W/\"x\"", "W/\"x\"")] {
            let mut response = html(text(5000));
            for (name, value) in [
                ("etag", etag),
                ("content-length", "5000"),
                ("accept-ranges", "bytes"),
                ("content-md5", "x"),
                ("content-digest", "x"),
                ("repr-digest", "x"),
                ("vary", "Origin"),
                ("x-kept", "1"),
            ] {
                response.headers.append(name, value);
            }
            let response = filtered(&*compress, "gzip", response).await;
            assert_eq!(response.headers.get_str(Known::Etag), Some(weak));
            let vary: Vec<_> = response.headers.get_all(Known::Vary).collect();
            assert_eq!(vary, [&b"Origin"[..], b"Accept-Encoding"]);
            let left =
                ["content-length", "accept-ranges", "content-md5", "content-digest", "repr-digest"];
            assert!(left.iter().all(|name| !response.headers.contains(*name)));
            assert!(response.headers.contains("x-kept"));
        }
        for vary in ["*", "Origin, accept-encoding"] {
            let mut response = html(text(5000));
            response.headers.append(Known::Vary, vary);
            let response = filtered(&*compress, "gzip", response).await;
            assert_eq!(response.headers.get_all(Known::Vary).count(), 1, "{vary}");
        }
    });
}

#[test]
fn a_304_has_the_tag_of_the_form_that_the_client_holds() {
    let compress = filter(&KIND, &node!({}));
    test(async {
        for (held, tag, varies) in [
            ("W/\"v1\"", "W/\"v1\"", true),
            ("\"v0\", W/\"v1\"", "W/\"v1\"", true),
            ("\"v1\"", "\"v1\"", false),
            ("W/\"v10\", \"v1\"", "\"v1\"", false),
        ] {
            let mut request = get("/", &[("accept-encoding", "gzip"), ("if-none-match", held)]);
            let mut response = Response::new(304);
            response.headers.append(Known::Etag, "\"v1\"");
            run(&*compress, &mut request, &mut response).await;
            assert_eq!(response.headers.get_str(Known::Etag), Some(tag), "{held}");
            assert_eq!(response.headers.contains(Known::Vary), varies, "{held}");
        }
    });
}

#[test]
fn a_response_that_does_not_shrink_stays_plain() {
    let compress = filter(&KIND, &node!({}));
    let mut noise = 1u64;
    let mut byte = || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (noise >> 56) as u8
    };
    let noise: Vec<u8> = (0..4000).map(|_| byte()).collect();
    test(async {
        let mut response = html(Bytes::from(noise.clone()));
        response.headers.append(Known::Etag, "\"x\"");
        let mut response = filtered(&*compress, "gzip", response).await;
        assert_eq!(
            (coding_of(&response), response.headers.get_str(Known::Etag)),
            ("", Some("\"x\""))
        );
        assert_eq!(response.headers.get_str(Known::Vary), Some("Accept-Encoding"));
        assert_eq!(content(&mut response).await, noise);
    });
}

#[test]
fn size_types_and_levels_are_settings() {
    test(async {
        let any_size = filter(&KIND, &node!({ "min_size": "10B" }));
        assert_eq!(coding_of(&filtered(&*any_size, "gzip", html(text(100))).await), "gzip");
        let types = node!({ "types": ["image/*", "text/x-own", "*+json"] });
        let types = filter(&KIND, &types);
        for (content_type, coding) in [
            ("image/png", "gzip"),
            ("TEXT/X-OWN; charset=x", "gzip"),
            ("application/problem+json", "gzip"),
            ("text/html", ""),
            ("application/json", ""),
            ("imagex/png", ""),
        ] {
            let response = Response::with_body(200, content_type, text(5000));
            assert_eq!(
                coding_of(&filtered(&*types, "gzip", response).await),
                coding,
                "{content_type}"
            );
        }
        // Words that recur, in no order.
        let mut step = 1u64;
        let mut word = || {
            step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            format!("{:x} ", (step >> 54) * 0x1234_5678)
        };
        let input: String = (0..20_000).map(|_| word()).collect();
        for (coding, low, high) in [("gzip", 1, 9), ("br", 0, 9), ("zstd", 1, 15)] {
            let mut lengths = Vec::new();
            for level in [low, high] {
                let levels = match coding {
                    "gzip" => node!({ "levels": { "gzip": level } }),
                    "br" => node!({ "levels": { "br": level } }),
                    _ => node!({ "levels": { "zstd": level } }),
                };
                let response = html(input.clone());
                let mut response = filtered(&*filter(&KIND, &levels), coding, response).await;
                lengths.push(content(&mut response).await.len());
            }
            assert!(lengths[1] < lengths[0], "{coding}: {lengths:?}");
        }
    });
}

#[test]
fn coded_bytes_are_counted_before_and_after() {
    let context = context();
    let compress = filter_in(&KIND, &node!({}), &context);
    test(async {
        let mut sent = 0;
        let bodies = [
            // On the worker, on the pool, as a stream, from a file.
            html(text(5_000)),
            html(text(200_000)),
            html(Body::stream(Source::new(vec![Some(&text(3_000)), None, Some(&text(4_000))]))),
        ];
        for body in bodies {
            let mut response = filtered(&*compress, "gzip", body).await;
            assert_eq!(coding_of(&response), "gzip");
            sent += self::content(&mut response).await.len();
        }
        // Too small, and not accepted: neither is counted.
        filtered(&*compress, "gzip", html(text(10))).await;
        filtered(&*compress, "identity", html(text(5_000))).await;
        let counted = |family, coding| {
            context.telemetry.worker_counter(context.index, family, &[coding]).get()
        };
        assert_eq!(counted(&families::COMPRESS_IN, "gzip"), 212_000);
        assert_eq!(counted(&families::COMPRESS_OUT, "gzip"), sent as u64);
        assert_eq!(counted(&families::COMPRESS_OUT, "br"), 0);
    });
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({ "codings": [] }), "at least one coding"),
        (node!({ "codings": ["gzip", "gzip"] }), "none twice"),
        (node!({ "codings": ["deflate"] }), "deflate"),
        (node!({ "types": [] }), "nothing is compressed"),
        (node!({ "types": ["html"] }), "is not a media type"),
        (node!({ "types": ["*/*"] }), "is not a media type"),
        (node!({ "min_size": 1024 }), "has no unit"),
        (node!({ "levels": { "gzip": 10 } }), "between 1 and 9"),
        (node!({ "levels": { "br": 12 } }), "between 0 and 11"),
        (node!({ "levels": { "zstd": 0 } }), "between 1 and 19"),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
    let empty: Node = node!({});
    assert_eq!(plan(&KIND, &empty).unwrap().describe(), "zstd, br, gzip from 1KiB");
}
