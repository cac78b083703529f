//! Each setting of `bandwidth`, with the time that bodies take.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use message::{Body, Frame, Request, Response, shared_body};
use net::manual_time;
use plugin::Filter;
use plugin::testing::{context, errors, filter, filter_in, get, passed, plan};
use settings::node;
use telemetry::families;

use super::KIND;

#[test]
fn the_declaration_is_valid() {
    settings::verify::<super::Bandwidth>().unwrap();
}

/// Reads a body in the background and counts its bytes.
fn read(mut body: Body) -> Rc<Cell<u64>> {
    let bytes = Rc::new(Cell::new(0));
    let counted = bytes.clone();
    net::task::spawn_local(async move {
        while let Some(frame) = body.frame().await {
            let more = match frame.unwrap() {
                Frame::Data(data) => data.len() as u64,
                Frame::File(range) => range.length,
                Frame::Trailers(_) => 0,
            };
            counted.set(counted.get() + more);
        }
    });
    bytes
}

fn limited(limit: &dyn Filter, headers: &[(&str, &str)], body: Body) -> Body {
    let mut request = get("/", headers);
    let mut response = Response::new(200);
    response.body = body;
    passed(limit.on_response(&mut request, &mut response)).unwrap();
    response.body
}

fn bytes(count: usize) -> Body {
    Body::from(Bytes::from(vec![b'x'; count]))
}

#[test]
fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
    manual_time::block_on(async {
        let context = context();
        let settings = node!({ "response": "100KiB", "burst": "50KiB", "name": "slow" });
        let limit = filter_in(&KIND, &settings, &context);
        let body = limited(&*limit, &[], bytes(250 * 1024));
        assert_eq!(body.length(), Some(250 * 1024));
        let read = read(body);
        let kib = async |after_ms| {
            manual_time::advance(Duration::from_millis(after_ms)).await;
            read.get() / 1024
        };
        // Up to one piece of 6.25 KiB more.
        assert!((50..=57).contains(&kib(0).await), "{}", read.get());
        assert!((100..=107).contains(&kib(500).await), "{}", read.get());
        assert!((150..=157).contains(&kib(500).await), "{}", read.get());
        assert_eq!(kib(1100).await, 250);
        let pauses =
            context.telemetry.worker_counter(0, &families::BANDWIDTH_PAUSES, &["slow", "response"]);
        assert!(pauses.get() > 20, "{}", pauses.get());
    });
}

#[test]
fn requests_have_a_rate_of_their_own() {
    manual_time::block_on(async {
        let limit = filter(&KIND, &node!({ "request": "10KiB", "burst": "1KiB" }));
        let (mut writer, body) = shared_body(1 << 20, None);
        for _ in 0..20 {
            writer.push(Bytes::from(vec![b'x'; 1024])).unwrap();
        }
        writer.finish(None);
        let mut request: Request = get("/", &[]);
        request.body = body.body();
        passed(limit.on_request(&mut request)).unwrap();
        let read = read(std::mem::take(&mut request.body));
        manual_time::advance(Duration::from_millis(1000)).await;
        assert!((11..=12).contains(&(read.get() / 1024)), "{}", read.get());
        manual_time::advance(Duration::from_millis(1000)).await;
        assert_eq!(read.get(), 20 * 1024);
        // Responses are not limited.
        assert!(matches!(limited(&*limit, &[], bytes(1 << 20)), Body::Bytes(_)));
    });
}

#[test]
fn exchanges_with_the_same_key_share_the_rate_also_after_a_reload() {
    manual_time::block_on(async {
        let settings = node!({ "response": "100KiB", "burst": "10KiB", "key": "header.x-user" });
        let context = context();
        let old = filter_in(&KIND, &settings, &context);
        let one = read(limited(&*old, &[("x-user", "ann")], bytes(1 << 20)));
        let new = filter_in(&KIND, &settings, &context);
        drop(old);
        let two = read(limited(&*new, &[("x-user", "ann")], bytes(1 << 20)));
        let other = read(limited(&*new, &[("x-user", "bob")], bytes(1 << 20)));
        manual_time::advance(Duration::from_secs(2)).await;
        let (both, alone) = (one.get() + two.get(), other.get());
        for total in [both, alone] {
            assert!((205..=230).contains(&(total / 1024)), "{both} {alone}");
        }
        assert!(one.get() > 0 && two.get() > 0);
    });
}

#[test]
fn an_ipv6_network_shares_the_rate() {
    manual_time::block_on(async {
        for (prefix, shares) in [(64, true), (128, false)] {
            let settings = node!({
                "response": "100KiB", "burst": "10KiB", "key": "client_ip", "ipv6_prefix": prefix,
            });
            let limit = filter(&KIND, &settings);
            let of = |client: &str| {
                let (mut request, mut response) = (get("/", &[]), Response::new(200));
                request.client_ip = client.parse().unwrap();
                response.body = bytes(1 << 20);
                passed(limit.on_response(&mut request, &mut response)).unwrap();
                read(response.body)
            };
            let (one, two) = (of("2001:db8::1"), of("2001:db8::2"));
            manual_time::advance(Duration::from_secs(2)).await;
            let both_kib = (one.get() + two.get()) / 1024;
            assert_eq!(both_kib < 300, shares, "{both_kib} KiB");
        }
    });
}

#[test]
fn files_are_cut_and_small_bodies_are_left_alone() {
    manual_time::block_on(async {
        let limit = filter(&KIND, &node!({ "response": "10MiB", "burst": "64KiB" }));
        let file = std::sync::Arc::new(tempfile::tempfile().unwrap());
        let range = net::FileRange { file, offset: 5, length: 1 << 20 };
        let read = read(limited(&*limit, &[], Body::File(range)));
        manual_time::advance(Duration::from_millis(50)).await;
        assert!(read.get() < 700 * 1024, "{}", read.get());
        manual_time::advance(Duration::from_millis(50)).await;
        assert_eq!(read.get(), 1 << 20);
        assert!(matches!(limited(&*limit, &[], bytes(64 * 1024)), Body::Bytes(_)));
        assert!(matches!(limited(&*limit, &[], Body::Empty), Body::Empty));
    });
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({}), "a bandwidth limit without effect"),
        (node!({ "request": "1MiB", "ipv6_prefix": 48 }), "the key is not client_ip"),
        (node!({ "request": "1B" }), "between 1KiB and"),
        (node!({ "respones": "1MiB" }), "did you mean \"response\"?"),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
    let shown = node!({ "request": "1MiB", "response": "2MiB", "key": "client_ip" });
    assert_eq!(
        plan(&KIND, &shown).unwrap().describe(),
        "request 1MiB/s, response 2MiB/s by client_ip"
    );
}
