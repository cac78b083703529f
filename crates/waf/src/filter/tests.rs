//! The threshold, exclusions, own rules and bodies.

use super::*;
use coding::Coding;
use plugin::testing::{errors, filter, get};
use settings::node;

/// The status of a request, and its body as the next filter sees it.
fn inspected(settings: &Node, mut request: Request) -> (u16, String) {
    let waf = filter(&KIND, settings);
    match net::worker::block_on_local(waf.on_request(&mut request).resolve()) {
        Step::Continue => {
            let content = net::worker::block_on_local(request.body.collect(1 << 20)).unwrap();
            (200, String::from_utf8_lossy(&content).into_owned())
        }
        Step::Fail(fault) => (fault.status, String::new()),
        Step::Respond(response) => panic!("responded {}", response.status),
    }
}

fn status(settings: &Node, target: &str, headers: &[(&str, &str)]) -> u16 {
    inspected(settings, get(target, headers)).0
}

fn posted(settings: &Node, media_type: &str, body: &str) -> (u16, String) {
    let mut request = get("/", &[("content-type", media_type)]);
    request.body = Body::from(body.to_owned());
    inspected(settings, request)
}

#[test]
fn the_declaration_is_valid() {
    settings::verify::<Waf>().unwrap();
}

#[test]
fn every_part_of_a_request_is_inspected() {
    let default = node!({});
    for (target, headers, wanted) in [
        ("/items?q=hello+world&page=2", &[][..], 200),
        ("/?q=1'+or+'1'='1", &[], 403),
        ("/?q=%253Cscript%253E", &[], 403),
        ("/?a[$ne]=1", &[], 403),
        ("/a/%2e%2e/%2e%2e/etc", &[], 403),
        ("/.git/config", &[], 403),
        ("/?q=1%0aunion%0d%0aselect%0aa", &[], 403),
        ("/?q=1%0aunion--x%0aselect%0aa", &[], 403),
        ("/?q=/*!50000union*//*!50000select*/+a", &[], 403),
        ("/?q=%3csvg%0aonload=a()%3e", &[], 403),
        ("/?q=java%09script:a()", &[], 403),
        ("/?q=%c0%bcscript", &[], 403),
        ("/?q=one%0atwo+--+three%0a%23+four", &[], 200),
        ("/", &[("cookie", "a=1; b=<script>x</script>")], 403),
        ("/", &[("cookie", "a=1; <script>x</script>")], 403),
        ("/", &[("referer", "${jndi:ldap://evil.example/a}")], 403),
        ("/", &[("user-agent", "sqlmap/1.8")], 403),
        ("/", &[("user-agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0")], 200),
    ] {
        assert_eq!(status(&default, target, headers), wanted, "{target} {headers:?}");
    }
    let many = format!("/?{}", "a&".repeat(PARAMETERS_MAX));
    assert_eq!(status(&default, &many, &[]), 403);
}

#[test]
fn bodies_are_inspected_and_stay_whole() {
    let default = node!({});
    for (media_type, body, wanted) in [
        ("application/x-www-form-urlencoded", "q=1%27+or+%271%27%3D%271", 403),
        ("application/json; charset=utf-8", r#"{"a":["x","<scr\u0069pt>"]}"#, 403),
        ("application/json", r#"{"a":"<script>"#, 403),
        ("application/json", r#"{"a":"' or","b":"1=1"}"#, 200),
        ("text/xml", "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/hostname'>]>", 403),
        ("image/png", "<script>", 200),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "<?php", 200),
        ("application/xml", "<a>&#60;script>&#x3c;/script></a>", 403),
        ("application/xml", "<a>&#8364; &amp; &lt;b&gt;</a>", 200),
        ("application/x-ndjson", r#"{"a":"<script>"}"#, 403),
        ("application/graphql", "<script>", 403),
        ("", "<script>", 403),
        // PHP reads a form here, and some applications read JSON in whatever they get.
        ("application/x-www-form-urlencoded,x", "q=%3Cscript%3E", 403),
        ("application/x-www-form-urlencoded x", "q=%3Cscript%3E", 403),
        ("application/json,x", r#"{"a":"<scr\u0069pt>"}"#, 403),
        ("x", "<script>", 403),
        ("x/y", "<script>", 403),
        // What a strict parser refuses, others accept.
        ("application/json", r#"{"a":"\ud800\u003cscript>"}"#, 403),
        ("application/json", r#"{"a":"\q\u003cscript>"}"#, 403),
        ("application/json", "{\"a\":\"\u{1}\\u003cscript>\"}", 403),
        ("application/json", r#"{"a":"\ud83d\ude00 \"quoted\" \\ \u12"}"#, 200),
        ("text/plain; charset=ibm037", "L..", 403),
        ("text/plain; charset=\"UTF-8\"", "abc", 200),
        // In which of these does the application read it?
        ("application/json; charset=utf-8; charset=utf-7", "L..", 403),
        ("application/json; charset*=us-ascii''ibm037", "L..", 403),
        ("application/json; charset*0=ibm; charset*1=037", "L..", 403),
        (r#"application/json; x="\"; charset=ibm037; \"""#, "L..", 403),
        (r#"application/json; x="\"; charset=utf-8; \""; charset=ibm037"#, "L..", 403),
        ("text/xml; charset=utf-8", "<?xml version='1.0' encoding='UTF-8'?><a/>", 200),
        ("text/xml", "\u{feff}<?xml version=\"1.0\" encoding = \"iso-8859-1\" ?><a/>", 200),
        ("text/xml", "<?xml version='1.0' encoding='UTF-7'?>+ADw-a/+AD4-", 403),
        ("text/xml", "<?xml version='1.0' encoding='utf-8' encoding='utf-7'?><a/>", 403),
        ("text/xml", "+ADw-?xml version='1.0' encoding='UTF-7'?+AD4-", 403),
        // The beginning of a declaration in EBCDIC.
        ("application/soap+xml", "Lo\u{a7}\u{94}\u{93}@", 403),
        ("image/png; charset=ibm037", "L..", 200),
        ("text/plain", "An ordinary text -- with 'quotes', or so.", 200),
    ] {
        let (status, forwarded) = posted(&default, media_type, body);
        assert_eq!(status, wanted, "{body}");
        assert_eq!(forwarded, if wanted == 200 { body } else { "" });
    }
    let part = |fields: &str, value: &str| {
        format!("--b:c\r\nContent-Disposition: form-data; {fields}\r\n\r\n{value}\r\n")
    };
    for (parts, wanted) in [
        (part("name=text", "An ordinary text.") + &part("name=b", "2"), 200),
        (part("name=text", "x") + &part("name=\"html\"", "<script>x</script>"), 403),
        (part("name=\"<script>\"", "x"), 403),
        (part("name=f; filename=\"a;../../../etc/passwd\"", "x"), 403),
        (part("name=f; filename=page.html", "<script>x</script>"), 200),
        (part("name=f; filename=\"\"", "<script>x</script>"), 403),
        (part("name=f; filename=x\r\nContent-Disposition: form-data; name=f", "<script>"), 403),
        (part("name=f\r\nContent-Type: text/plain; charset=utf-8", "An ordinary text."), 200),
        (part("name=f\r\nContent-Type: text/plain; charset=utf-7", "+ADw-"), 403),
        (part("name=f; filename=x\r\nContent-Type: text/plain; charset=utf-7", "+ADw-"), 200),
        (part("name=f\r\nContent-Transfer-Encoding: base64", "PHNjcmlwdD4="), 403),
        ("--b:c\nContent-Disposition: form-data; name=a\n\n<script>".to_owned(), 403),
        (part("name=f; filename=\"a'b.html\"", "<script>x</script>"), 200),
        // Not every recipient knows `filename*`, nor takes these for names of files.
        (part("name=f; filename*=utf-8''page.html", "<script>"), 403),
        (part("name=f; x=\"\\\"; filename=y; \\\"\"", "<script>"), 403),
        (part("name=f; x='; filename=y; '", "<script>"), 403),
        (part("name=f; filename=a; filename=\"\"", "<script>"), 403),
        // For most recipients a part is not over before a line that is a delimiter.
        (part("name=a", "x--b:c\r\nContent-Disposition: x; filename=y\r\n\r\n<script>"), 403),
        (part("name=a", "\n--b:c\r\nContent-Disposition: x; filename=y\r\n\r\n<script>"), 403),
        (part("name=a", "\r\n--b:cx\r\nContent-Disposition: x; filename=y\r\n\r\n<script>"), 403),
        ("<script>\r\n".to_owned() + &part("name=a", "x"), 403),
    ] {
        let body = parts + "--b:c--\r\n";
        let (status, _) = posted(&default, "Multipart/Form-Data; boundary=\"b:c\"", &body);
        assert_eq!(status, wanted, "{body}");
    }
    assert_eq!(posted(&default, "multipart/form-data", "<script>").0, 403);
    let file =
        "--b\r\nContent-Disposition: form-data; name=f; filename=x\r\n\r\n<script>\r\n--b--\r\n";
    for (media_type, wanted) in [
        ("multipart/form-data; boundary=b", 200),
        ("multipart/related; boundary=b", 200),
        // Which of the two does the application take?
        ("multipart/form-data; boundary=b; boundary=c", 403),
        ("multipart/form-data; boundary=b; boundary*0=c", 403),
        ("multipart/form-data; boundary=b,c", 403),
        ("multipart/form-data; boundary=c", 403),
    ] {
        assert_eq!(posted(&default, media_type, file).0, wanted, "{media_type}");
    }
    let webkit = "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW";
    let file = file.replace("--b", "------WebKitFormBoundary7MA4YWxkTrZu0gW");
    assert_eq!(posted(&default, webkit, &file).0, 200);
    let types = [("content-type", "image/png"), ("content-type", "text/plain")];
    for (headers, wanted) in [(&types[..], 403), (&types[..1], 200), (&[], 403)] {
        let mut request = get("/", headers);
        request.body = Body::from("<script>".to_owned());
        assert_eq!(inspected(&default, request).0, wanted, "{headers:?}");
    }
    let short = node!({ "body": "8B" });
    let late = "12345678<script>";
    assert_eq!(posted(&short, "text/plain", late), (200, late.to_owned()));
    assert_eq!(posted(&node!({ "body": "0B" }), "text/plain", "<script>").0, 200);
}

#[test]
fn no_number_of_values_hides_one() {
    let default = node!({});
    let cookies = "a=' ;".repeat(1500) + "b=<script>";
    assert_eq!(status(&default, "/", &[("cookie", &cookies)]), 403);
    let form = "a=b+c&".repeat(1500) + "q=1%27+or+%271%27%3D%271";
    assert_eq!(posted(&default, "application/x-www-form-urlencoded", &form).0, 403);
    let json = format!("[{}\"\\u003cscript>\"]", "\"a b\",".repeat(1500));
    assert_eq!(posted(&default, "application/json", &json).0, 403);
    let part = "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n";
    let parts = format!("{part}a b\r\n").repeat(1000) + part + "<script>\r\n--b--";
    assert_eq!(posted(&default, "multipart/form-data; boundary=b", &parts).0, 403);
    let harmless = "a=b+c&".repeat(1500);
    assert_eq!(posted(&default, "application/x-www-form-urlencoded", &harmless).0, 200);
}

#[test]
fn long_bodies_are_inspected_on_another_thread() {
    let json = |value: &str| format!(r#"["{}", "{value}"]"#, "x".repeat(2 * ON_WORKER_BYTES));
    let whole = node!({ "body": "1MiB" });
    // Returns whether the inspection was in progress after the first poll.
    let was_awaited = |value: &str, wanted: u16| {
        let mut request = get("/", &[("content-type", "application/json")]);
        request.body = Body::from(json(value));
        let waf = filter(&KIND, &whole);
        net::worker::block_on_local(async {
            let MaybeFuture::Future(mut inspection) = waf.on_request(&mut request) else {
                panic!("the body was not awaited");
            };
            let first = polled(&mut inspection).await;
            let is_pending = first.is_none();
            let step = match first {
                Some(step) => step,
                None => inspection.await,
            };
            let status = match step {
                Step::Continue => 200,
                Step::Fail(fault) => fault.status,
                Step::Respond(response) => response.status,
            };
            assert_eq!(status, wanted);
            is_pending
        })
    };
    for (value, wanted) in [("ordinary", 200), ("<script>", 403)] {
        // Another thread may end before the first poll, though not every time; on the worker the
        // inspection always ends in it.
        let is_elsewhere = (0..100).any(|_| was_awaited(value, wanted));
        assert!(is_elsewhere, "a long body was inspected on the worker");
    }
}

/// Polls a future once.
async fn polled<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[test]
fn compressed_bodies_are_inspected_and_forwarded_as_they_came() {
    let sent = |settings: &Node, coding: &str, body: Vec<u8>| {
        let headers = [("content-type", "text/plain"), ("content-encoding", coding)];
        let mut request = get("/", &headers);
        request.body = Body::from(bytes::Bytes::from(body.clone()));
        let waf = filter(&KIND, settings);
        match net::worker::block_on_local(waf.on_request(&mut request).resolve()) {
            Step::Continue => {
                let forwarded = net::worker::block_on_local(request.body.collect(1 << 24));
                assert_eq!(forwarded.unwrap(), body);
                200
            }
            Step::Fail(fault) => fault.status,
            Step::Respond(response) => response.status,
        }
    };
    let default = node!({});
    for coding in [Coding::Gzip, Coding::Br, Coding::Zstd] {
        let name = coding.token();
        let packed = |text: &str| coding::encode_all(coding, 3, text.as_bytes()).unwrap();
        assert_eq!(sent(&default, name, packed("an ordinary text")), 200, "{name}");
        assert_eq!(sent(&default, name, packed("a <script> here")), 403, "{name}");
        // Only the beginning is decoded, whatever it would become.
        let bomb = "x".repeat(8 << 20) + "<script>";
        assert_eq!(sent(&node!({ "body": "1MiB" }), name, packed(&bomb)), 200, "{name}");
        assert_eq!(sent(&default, name, b"damaged, and long enough".to_vec()), 403, "{name}");
    }
    // With the header of zlib, and without: "an <script>" in one stored block.
    let stored = [b"\x01\x0b\x00\xf4\xff", &b"an <script>"[..]].concat();
    assert_eq!(sent(&default, "Deflate", [b"\x78\x01", &stored[..]].concat()), 403);
    assert_eq!(sent(&default, "deflate", stored), 403);
    assert_eq!(sent(&default, "deflate", b"\x01\x02\x00\xfd\xffan".to_vec()), 200);
    assert_eq!(sent(&default, "deflate", b"damaged, and long enough".to_vec()), 403);
    assert_eq!(sent(&default, "compress", b"x".to_vec()), 403);
    assert_eq!(sent(&default, "gzip, gzip", b"x".to_vec()), 403);
    assert_eq!(sent(&default, "identity", b"x".to_vec()), 200);
    assert_eq!(sent(&node!({ "body": "0B" }), "compress", b"x".to_vec()), 200);
    assert_eq!(sent(&node!({ "log_only": true }), "compress", b"x".to_vec()), 200);
}

#[test]
fn the_threshold_and_exclusions_are_settings() {
    let script = "/?html=<script>";
    assert_eq!(status(&node!({ "threshold": 6 }), script, &[]), 200);
    assert_eq!(status(&node!({ "log_only": true }), script, &[]), 200);
    for (exclude, wanted) in [
        (node!({ "rules": "xss" }), 200),
        (node!({ "rules": ["xss-script"], "parameters": ["html"] }), 200),
        (node!({ "rules": "xss", "parameters": ["other"] }), 403),
        (node!({ "rules": "sql" }), 403),
        (node!({ "rules": "xss", "when": { "header": "x-editor" } }), 403),
    ] {
        let settings = Node::made(settings::Value::Map(vec![(
            settings::MapKey { name: "exclude".to_owned(), span: settings::Span::NOWHERE },
            Node::made(settings::Value::List(vec![exclude.clone()])),
        )]));
        assert_eq!(status(&settings, script, &[]), wanted, "{exclude:?}");
    }
}

#[test]
fn headers_are_excluded_whatever_their_case() {
    for (name, value) in [("referer", "/?a=<script>"), ("user-agent", "sqlmap/1.8")] {
        for (excluded, wanted) in [("REFERER", "referer"), ("user-AGENT", "user-agent")] {
            let settings = node!({ "exclude": [
                { "rules": ["xss", "scanner"], "parameters": [excluded] },
            ] });
            let expected = if name == wanted { 200 } else { 403 };
            assert_eq!(status(&settings, "/", &[(name, value)]), expected, "{name} {excluded}");
        }
    }
    let parameter = node!({ "exclude": [{ "rules": "xss", "parameters": ["HTML"] }] });
    assert_eq!(status(&parameter, "/?html=<script>", &[]), 403, "parameters have a case");
}

#[test]
fn own_rules_decide_first() {
    let settings = node!({ "rules": [
        { "when": { "header": "x-trusted" }, "action": "allow" },
        { "when": { "query": "debug" }, "action": "reject", "status": 404 },
    ] });
    assert_eq!(status(&settings, "/?debug=1", &[]), 404);
    assert_eq!(status(&settings, "/?debug=<script>", &[("x-trusted", "1")]), 200);
    assert_eq!(status(&settings, "/?q=<script>", &[]), 403);
    let only = node!({
        "builtin": false, "rules": [{ "when": { "query": "debug" }, "action": "reject" }],
    });
    assert_eq!(status(&only, "/?q=<script>", &[]), 200);
    assert_eq!(status(&only, "/?debug", &[]), 403);
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({ "builtin": false }), "rejects nothing"),
        (node!({ "exclude": [{ "rules": "sqlx" }] }), "there is no rule"),
        (node!({ "exclude": [{ "rules": "xss-scrip" }] }), "xss-script"),
        (node!({ "threshold": 0 }), "1"),
        (node!({ "body": "2MiB" }), "1MiB"),
        (node!({ "rules": [{ "when": { "query": "a" }, "action": "drop" }] }), "drop"),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
}
