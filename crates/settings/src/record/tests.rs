//! Tests of derived records.

use crate::{Def, Duration, Node, Reader, Report, SchemaBuilder, Setting, node, read};

/// A thing.
///
/// With details.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(later(tls, proxy_protocol), default)]
pub(crate) struct Thing {
    /// How long.
    #[setting(default = "1s", range = "1ms"..="1h", example = "5s")]
    pub(crate) timeout: Duration,
    /// How many.
    #[setting(default = 5, range = 1..=10)]
    pub(crate) count: u32,
    /// A word of Rust.
    #[setting(default = [])]
    pub(crate) r#match: Vec<String>,
    /// Perhaps.
    pub(crate) maybe: Option<String>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = address, check = check_server)]
pub(crate) struct Server {
    /// Where.
    pub(crate) address: String,
    /// Weight.
    #[setting(default = 1, range = 1..=100)]
    pub(crate) weight: u32,
    /// Limit.
    #[setting(range = 2..=3)]
    pub(crate) limit: Option<u32>,
    /// Inner.
    #[setting(default = {})]
    pub(crate) thing: Thing,
}

/// Nothing to set.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(default)]
pub(crate) struct Empty {}

fn check_server(server: &Server, node: &Node, reader: &mut Reader<'_>) {
    if server.address == "bad" && server.weight == 7 {
        reader.error(node.span, "bad servers have no weight 7");
    }
}

#[test]
fn defaults_come_from_the_declaration() {
    let thing = Thing::default();
    assert_eq!(thing.timeout, Duration::from_secs(1));
    assert_eq!((thing.count, thing.r#match.len(), thing.maybe.clone()), (5, 0, None));
    assert_eq!(read(&node!(null)), Ok(thing));
    assert_eq!(Empty::default(), Empty {});
}

#[test]
fn what_is_written_counts() {
    let thing: Thing = read(&node!({ "timeout": "5s", "match": ["a"], "maybe": "x" })).unwrap();
    assert_eq!(thing.timeout.to_string(), "5s");
    assert_eq!((thing.r#match.as_slice(), thing.maybe.as_deref()), (&["a".into()][..], Some("x")));
}

#[test]
fn the_short_form_stands_for_a_key() {
    let short: Server = read(&node!("a:1")).unwrap();
    let long: Server = read(&node!({ "address": "a:1", "weight": 1 })).unwrap();
    assert_eq!(short, long);
}

#[test]
fn all_errors_at_once() {
    let out = read::<Thing>(&node!({ "tiemout": "5s", "count": 11, "match": 3, "tls": {} }));
    let out = out.unwrap_err();
    for expected in [
        "unknown key \"tiemout\", did you mean \"timeout\"?",
        "count \"11\" is not between 1 and 10",
        "expected a list, found \"3\"",
        "`tls` comes later",
    ] {
        assert!(out.contains(expected), "{out}\nwanted {expected}");
    }
    assert!(
        read::<Server>(&node!({ "weight": 2 })).unwrap_err().contains("\"address\" is missing")
    );
    let out = read::<Thing>(&node!([])).unwrap_err();
    assert!(out.contains("expected a map, found a list\n"), "{out}");
    assert!(out.contains("valid here: timeout, "), "{out}");
}

#[test]
fn a_misspelled_key_is_not_called_missing_too() {
    let out = read::<Server>(&node!({ "adress": "a:1" })).unwrap_err();
    assert!(out.contains("did you mean \"address\"?") && !out.contains("missing"), "{out}");
}

#[test]
fn ranges_hold_for_optional_fields_too() {
    assert!(read::<Server>(&node!({ "address": "a", "limit": 4 })).is_err());
    assert_eq!(read::<Server>(&node!({ "address": "a", "limit": 3 })).unwrap().limit, Some(3));
    assert_eq!(read::<Server>(&node!({ "address": "a", "limit": null })).unwrap().limit, None);
}

#[test]
fn a_value_that_was_rejected_is_not_used() {
    let with = |node: Node| {
        let mut report = Report::new();
        let value = Server::read(&node, &mut Reader::new(&mut report)).unwrap();
        assert_eq!(report.len(), 1);
        (value.weight, value.limit, value.thing.timeout)
    };
    let second = Duration::from_secs(1);
    assert_eq!(with(node!({ "address": "a", "weight": 4000000 })), (100, None, second));
    assert_eq!(with(node!({ "address": "a", "weight": 0 })), (1, None, second));
    assert_eq!(with(node!({ "address": "a", "limit": 4000000 })), (1, Some(3), second));
    let late = node!({ "address": "a", "thing": { "timeout": "9h" } });
    assert_eq!(with(late), (1, None, Duration::from_secs(3600)));
}

#[test]
fn a_check_sees_the_whole_record() {
    let out = read::<Server>(&node!({ "address": "bad", "weight": 7 })).unwrap_err();
    assert!(out.contains("no weight 7"), "{out}");
}

#[test]
fn the_description_is_the_declaration() {
    let mut defs = SchemaBuilder::default();
    Server::schema(&mut defs);
    let names: Vec<_> = defs.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["settings::record::tests::Server", "settings::record::tests::Thing"]);
    let Some(Def::Record(thing)) = defs.get(names[1]) else { panic!("not a record") };
    assert_eq!(thing.doc, "A thing.\n\nWith details.");
    assert_eq!(thing.later, ["tls", "proxy_protocol"]);
    assert_eq!(thing.fields[0].examples, [node!("5s")]);
    assert_eq!(thing.fields[0].range, Some((node!("1ms"), node!("1h"))));
    assert_eq!(thing.fields[2].key, "match");
    let Some(Def::Record(server)) = defs.get(names[0]) else { panic!("not a record") };
    assert_eq!(server.short, Some("address"));
    let required: Vec<_> = server.fields.iter().map(|field| field.required).collect();
    assert_eq!(required, [true, false, false, false]);
}

#[test]
fn a_wrong_value_does_not_hide_the_errors_after_it() {
    let mut report = crate::Report::new();
    let node = node!({ "address": "bad", "weight": 0, "thing": { "count": "x", "timeout": "2s" } });
    let server = Server::read(&node, &mut Reader::new(&mut report)).unwrap();
    assert_eq!((server.thing.count, server.thing.timeout), (5, Duration::from_secs(2)));
    assert_eq!(report.len(), 2, "{report}");
    // Without the key that has no default there is no value.
    assert!(Server::read(&node!({ "weight": 1 }), &mut Reader::new(&mut report)).is_none());
}
