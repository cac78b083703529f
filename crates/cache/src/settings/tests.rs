//! Settings of caches that are accepted, and those that are rejected.

use settings::{node, read, verify};

use super::{CacheSettings, FilterSettings, QueryMode};

fn wrong(node: settings::Node) -> String {
    read::<FilterSettings>(&node).expect_err("an error")
}

#[test]
fn every_declaration_holds() {
    verify::<CacheSettings>().unwrap();
    verify::<FilterSettings>().unwrap();
}

#[test]
fn a_name_alone_is_enough() {
    let entry: FilterSettings = read(&node!("pages")).unwrap();
    assert_eq!(entry.store.value, "pages");
    assert_eq!(entry.key.query, QueryMode::All);
    assert_eq!(read::<CacheSettings>(&node!("64MiB")).unwrap().memory.bytes(), 64 << 20);
    assert!(wrong(node!({})).contains("key \"store\" is missing"));
}

#[test]
fn statuses_are_statuses_or_classes() {
    let ttl = |status: &str| {
        let times = settings::Node::made(settings::Value::Map(vec![(
            settings::MapKey { name: status.to_owned(), span: settings::Span::NOWHERE },
            node!("10s"),
        )]));
        read::<super::StatusTimes>(&times)
    };
    for right in ["200", "404", "5xx"] {
        assert!(ttl(right).is_ok(), "{right}");
    }
    for odd in ["99", "600", "1xx", "6xx", "xx", "4x", "0404", "ok"] {
        assert!(ttl(odd).unwrap_err().contains("is not a status"), "{odd}");
    }
    let times = ttl("404").unwrap();
    assert_eq!(times.iter().map(|(status, _)| status).collect::<Vec<_>>(), [404]);
}

#[test]
fn what_contradicts_itself_is_refused() {
    for (node, message) in [
        (node!({ "store": "a", "ttl": { "min": "2h", "max": "1h" } }), "min 2h is longer than max"),
        (node!({ "store": "a", "ttl": { "default": "2h", "max": "1h" } }), "default 2h is longer"),
        (node!({ "store": "a", "languages": ["de_DE"] }), "\"de_DE\" is not a language tag"),
        (node!({ "store": "a", "codings": { "offer": ["br", "br"] } }), "names no coding twice"),
        (node!({ "store": "a", "key": { "query": { "allow": [] } } }), "write query: none"),
        (node!({ "store": "a", "key": { "headers": ["Accept-Encoding"] } }), "need not count"),
        (node!({ "store": "a", "key": { "cookies": ["a b"] } }), "is not a valid cookie name"),
        (node!({ "store": "a", "fetch": { "drop_headers": ["host"] } }), "host is needed"),
        (node!({ "store": "a", "grace": "1h" }), "unknown key \"grace\""),
        (node!({ "store": "a", "max_size": "unlimited" }), "is not between 1KiB and 1TiB"),
    ] {
        let out = wrong(node);
        assert!(out.contains(message), "{out}\nwanted {message}");
    }
}
