//! Names of request fields that some applications take for other names (`X_Real_IP`): those that
//! frame messages are rejected, those that only a trusted proxy may send are removed.

use crate::setup::behind;
use scenarios::{Tidegate, Upstream};

/// Fields that applications believe, as a proxy spells them.
const FORWARDING: &[&str] = &[
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Forwarded-Proto",
    "X-Forwarded-Server",
    "X-Forwarded-Prefix",
    "X-Forwarded-Ssl",
    "X-Forwarded-Scheme",
    "X-Forwarded-Protocol",
    "X-Forwarded-Uri",
    "X-Forwarded-User",
    "X-Real-IP",
    "Front-End-Https",
    "X-Url-Scheme",
    "X-Original-URL",
    "X-Original-URI",
    "X-Rewrite-URL",
    "Script-Name",
    "Path-Info",
    "X-Script-Name",
    "True-Client-IP",
    "Client-IP",
    "X-Client-IP",
    "X-Cluster-Client-IP",
    "CF-Connecting-IP",
    "Fastly-Client-IP",
    "Client-Cert",
    "Proxy",
];

/// Other spellings of a name.
fn aliases(name: &str) -> Vec<String> {
    let mut aliases = vec![format!("_{name}"), format!("{name}_"), format!("{name}--")];
    if name.contains('-') {
        aliases.extend(["_", "--", "__", "-_", "."].map(|mark| name.replace('-', mark)));
        aliases.push(name.replacen('-', "_", 1));
        aliases.push(name.to_ascii_uppercase().replace('-', "_"));
    }
    aliases
}

/// The names as which an application may see a field: of CGI, WSGI and Rack, of servers that
/// replace all punctuation, and of those that also merge it.
fn seen_as(name: &str) -> [String; 3] {
    let upper = name.to_ascii_uppercase();
    let replaced: String =
        upper.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let words: Vec<&str> = replaced.split('_').filter(|word| !word.is_empty()).collect();
    [upper.replace('-', "_"), replaced.clone(), words.join("_")]
}

/// Answers with the head it was sent.
fn mirror() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let length = head.len();
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{head}"));
        }
    })
}

/// The lines of the head that the upstream was sent for a request with these fields, each of which
/// has the value `evil`.
fn sent<'a>(server: &Tidegate, names: impl IntoIterator<Item = &'a str>) -> Vec<(String, String)> {
    let fields: String = names.into_iter().map(|name| format!("{name}: evil\r\n")).collect();
    let response = server.exchange("web", format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n"));
    assert_eq!(response.status, 200, "{fields}");
    let text = response.text();
    let lines = text.split("\r\n").filter_map(|line| line.split_once(": "));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn no_spelling_of_a_forwarding_field_reaches_the_upstream_from_a_stranger() {
    let upstream = mirror();
    let server = Tidegate::start(&behind(&upstream, ""));
    for name in FORWARDING {
        let mut spellings = aliases(name);
        spellings.push((*name).to_owned());
        let lines = sent(&server, spellings.iter().map(String::as_str).chain(["X-Own", "x_own"]));
        let guarded = seen_as(name);
        for (sent, value) in &lines {
            let seen = seen_as(sent);
            let believed = seen.iter().any(|seen| guarded.contains(seen));
            assert!(!believed || value != "evil", "{name} arrives as {sent}");
        }
        let kept = lines.iter().filter(|(_, value)| value == "evil").count();
        assert_eq!(kept, 2, "{lines:?}");
    }
}

#[test]
fn a_trusted_proxy_sends_them_in_their_proper_spelling_alone() {
    let upstream = mirror();
    let server = Tidegate::start(&behind(&upstream, "trusted_proxies: [127.0.0.0/8]"));
    for name in FORWARDING {
        let mut spellings = aliases(name);
        spellings.push((*name).to_owned());
        let lines = sent(&server, spellings.iter().map(String::as_str));
        let arrived: Vec<_> =
            lines.iter().filter(|(_, value)| value.starts_with("evil")).map(|(n, _)| n).collect();
        // CGI programs take Proxy for the setting HTTP_PROXY: no proxy sends it.
        let expected: &[&str] = if *name == "Proxy" { &[] } else { &[name] };
        assert_eq!(arrived, expected);
    }
}

#[test]
fn trailers_have_none_of_them() {
    let upstream = Upstream::start(|peer| {
        // Kept open: a POST is not sent again if it meets the end of its connection.
        while !peer.at_end() {
            peer.read_head();
            let body = String::from_utf8(peer.read_until("0\r\n")).expect("text");
            let mut trailers = String::new();
            while !trailers.ends_with("\r\n\r\n") {
                trailers.push_str(&String::from_utf8(peer.read_until("\r\n")).expect("text"));
            }
            let all = format!("{body}{trailers}");
            let length = all.len();
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{all}"));
        }
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    for name in ["X_Real_IP", "x-forwarded-prefix", "Content--Length", "Transfer_Encoding", "host_"]
    {
        let request = format!(
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
             4\r\nbody\r\n0\r\nx-sum: 1\r\n{name}: evil\r\n\r\n"
        );
        let text = server.exchange("web", request).text();
        assert!(text.contains("x-sum: 1\r\n") && !text.contains("evil"), "{name}: {text}");
    }
}

/// What a filter sets or removes does not come past it under another spelling.
#[test]
fn a_filter_that_sets_or_removes_a_field_removes_its_other_spellings() {
    let upstream = mirror();
    let filters = "filters: [{ request_headers: { set: { X-User: ann }, remove: [x-admin] } }], \
                   handler";
    let config = behind(&upstream, "").replace("handler", filters);
    let server = Tidegate::start(&config);
    let names = ["X_User", "x--user", "X-User_", "X-USER", "X_Admin", "x-admin", "x-other"];
    let lines = sent(&server, names);
    let evil: Vec<_> = lines.iter().filter(|(_, value)| value == "evil").map(|(n, _)| n).collect();
    assert_eq!(evil, ["x-other"]);
    assert!(
        lines.iter().any(|(name, value)| name == "X-User" || (name == "x-user" && value == "ann"))
    );
}

#[test]
fn connection_names_a_field_in_any_spelling_and_no_forwarding_field() {
    let upstream = mirror();
    let server = Tidegate::start(&behind(&upstream, "trusted_proxies: [127.0.0.0/8]"));
    let request = "GET / HTTP/1.1\r\nhost: a\r\nconnection: x-own, x_real_ip\r\n\
                   connection: X-Forwarded-Prefix\r\n\
                   X_Own: gone\r\nX-Real-IP: 203.0.113.9\r\nX-Forwarded-Prefix: /app\r\n\r\n";
    let head = server.exchange("web", request).text();
    assert!(!head.contains("gone"), "{head}");
    assert!(head.contains("X-Real-IP: 203.0.113.9\r\n"), "{head}");
    assert!(head.contains("X-Forwarded-Prefix: /app\r\n"), "{head}");
}

/// gunicorn knows the field by this spelling alone.
#[test]
fn a_filter_sets_a_forwarding_field_in_any_spelling() {
    let upstream = mirror();
    let filters = "filters: [{ request_headers: { set: { SCRIPT_NAME: /shop } } }], handler";
    let server = Tidegate::start(&behind(&upstream, "").replace("handler", filters));
    let lines = sent(&server, ["Script-Name", "SCRIPT_NAME", "Script--Name"]);
    let set = |(name, value): &&(String, String)| {
        name.eq_ignore_ascii_case("SCRIPT_NAME") && value == "/shop"
    };
    assert_eq!(lines.iter().filter(set).count(), 1, "{lines:?}");
    assert!(lines.iter().all(|(_, value)| value != "evil"), "{lines:?}");
}
