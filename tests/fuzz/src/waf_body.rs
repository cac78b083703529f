//! Bodies of requests, as the filter `waf` inspects them.

use std::fmt::Write as _;

use crate::{FuzzTarget, owned};
use message::{Body, Headers, Request, Target};
use waf::{RULES, inspect_content};
use wire::Method;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: waf_body,
    seeds: || {
        owned(&[
            "application/json\n<script>alert(1)</script>",
            "application/json\n[\"\\u003cscript>\",\"\\ud800\",\"open",
            "application/x-www-form-urlencoded\na=1%27+or+%271%27%3D%271&b",
            "multipart/form-data; boundary=b\n--b\r\nContent-Disposition: form-data; \
             name=\"a\"; filename=\"../x\"\r\n\r\n1' or '1'='1\r\n--b--",
            "text/xml\n<a>&#60;script&gt;<![CDATA[1 union select 2]]></a>",
            "\n/*!50000union*//*!50000select*/ a\nunion--x\nselect a",
            "text/plain; charset=utf-16\n${jndi:ldap://a/b}\x00java\tscript:a()",
            "text/plain\n/* /* /* -- # ; cat /etc/passwd | a",
            "text/plain\n<script>alert(1)</script>; cat ",
        ])
    },
    dictionary: &[
        "<script",
        "union",
        "select",
        "' or '1'='1",
        "/*",
        "*/",
        "/*!50000",
        "--",
        "#",
        "%25",
        "%3c",
        "\\u003c",
        "&#x3c;",
        "&lt;",
        "\r\n",
        "--b",
        "filename=",
        "name=",
        "../",
        "${jndi:",
        "\"",
        "$ne",
        "; cat ",
        "boundary=",
        "charset=",
    ],
    cases: 300,
};

/// Any content of any media type is inspected, and none of the encodings in which an application
/// reads a value hides what is found in the value itself.
///
/// The input is a value of `Content-Type`, a line break, and a body.
fn waf_body(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let content = input.get(end + 1..).unwrap_or_default();
    let content = &content[..content.len().min(4096)];
    found(&input[..end], content);

    let value = String::from_utf8_lossy(content);
    let value = value.trim_ascii_end();
    // Without a body there is nothing to inspect.
    if value.is_empty() {
        return;
    }
    let plain = found(b"text/plain", value.as_bytes()).expect("text is inspected");
    for (media_type, body) in encodings(value) {
        let encoded = found(media_type.as_bytes(), body.as_bytes()).expect("it is inspected");
        for rule in &plain {
            assert!(encoded.contains(rule), "{media_type} hides {}: {body:?}", RULES[*rule].name);
        }
    }
}

/// Indices of the rules that match; `None` for a type that is not inspected.
fn found(media_type: &[u8], content: &[u8]) -> Option<Vec<usize>> {
    let mut headers = Headers::new();
    headers.append("content-type", media_type);
    let target = Target::new("/".into()).expect("a target");
    let mut request = Request::made_up(Method::Post, target, headers);
    request.body = Body::from(bytes::Bytes::copy_from_slice(content));
    let verdict = inspect_content(&request, content)?;
    let scores: u32 = verdict.matched.iter().map(|rule| RULES[*rule].score).sum();
    assert_eq!(verdict.score, scores, "each rule counts once");
    Some(verdict.matched)
}

/// Bodies in which an application reads this value.
fn encodings(value: &str) -> Vec<(&'static str, String)> {
    let (mut form, mut xml) = (String::from("a=1&b="), String::from("<a>"));
    for byte in value.bytes() {
        let _ = write!(form, "%{byte:02x}");
    }
    for character in value.chars() {
        let _ = write!(xml, "&#x{:x};", u32::from(character));
    }
    let mut encodings = vec![
        ("application/x-www-form-urlencoded", form),
        ("application/json", serde_json::json!({ "a": [1, value] }).to_string()),
        ("text/xml", xml + "</a>"),
    ];
    if !value.contains("--b") {
        let head = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
        encodings.push(("multipart/form-data; boundary=b", format!("{head}{value}\r\n--b--\r\n")));
    }
    encodings
}
