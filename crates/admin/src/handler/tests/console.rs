//! The files of the console.

use super::*;

const LOCAL: (&str, &str) = ("host", "127.0.0.1:9180");

#[test]
fn the_page_is_served_under_a_policy_that_allows_its_own_files_only() {
    let bench = Bench::new();
    let page = bench.send(request("GET /console/", &[LOCAL], ""));
    assert_eq!((page.status, page.field(Known::ContentType)), (200, "text/html; charset=utf-8"));
    let policy = page.field(Known::ContentSecurityPolicy);
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
    let script = bench.send(request("GET /console/console.js", &[LOCAL], ""));
    assert_eq!(script.field(Known::ContentType), "text/javascript; charset=utf-8");
    assert_eq!(script.headers.get_str("x-content-type-options"), Some("nosniff"));
    for (path, status) in [("/", 307), ("/console", 308)] {
        let other = bench.send(request(&format!("GET {path}"), &[LOCAL], ""));
        assert_eq!((other.status, other.field(Known::Location)), (status, "/console/"));
    }
}

#[test]
fn files_are_compressed_for_clients_that_accept_it() {
    let bench = Bench::new();
    let mut accepting =
        request("GET /console/console.js", &[LOCAL, ("accept-encoding", "gzip")], "");
    let response = net::worker::block_on_local(async {
        let mut response = bench.admin.handle(&mut accepting).resolve().await.unwrap();
        assert_eq!(response.headers.get_str(Known::ContentEncoding), Some("gzip"));
        response.body.collect(1 << 20).await.unwrap()
    });
    let allowed = coding::Decode { output_bytes: 1 << 22, ratio: 1000 };
    let plain = coding::decode_all(coding::Coding::Gzip, &response, allowed).unwrap();
    let identity = bench.send(request("GET /console/console.js", &[LOCAL], ""));
    assert_eq!(identity.body.as_bytes(), plain);
    assert_eq!(identity.field(Known::ContentEncoding), "");
    assert_eq!(identity.field(Known::Vary), "Accept-Encoding");
}

#[test]
fn the_console_that_is_off_and_files_that_do_not_exist() {
    let off = Bench::of(Access { console: false, ..access(&[]) });
    for path in ["GET /console/", "GET /console", "GET /console/console.js"] {
        let response = off.send(request(path, &[LOCAL], ""));
        assert!(response.status == 404 && response.body.contains("admin.console"), "{path}");
    }
    let bench = Bench::new();
    let near = bench.send(request("GET /console/consol.js", &[LOCAL], ""));
    assert!(near.status == 404 && near.body.contains("/console/console.js?"), "{}", near.body);
    let foreign = bench.send(request("GET /console/", &[("host", "rebound.example")], ""));
    assert_eq!(foreign.status, 421);
    assert_eq!(bench.send(request("POST /console/", &[LOCAL], "")).status, 405);
}
