//! The short form of conditions, as of `ctl log --where`.

use message::{Headers, Request, Target};
use plugin::Condition;

use crate::{FuzzTarget, owned};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: expression,
    seeds: || {
        owned(&[
            &b"header.x-user == \"7\""[..],
            b"query.q != a",
            b"path =~ \"^/a/\\\\d\\\"\"",
            b"cookie.a",
            b"host $= .example",
            b"\x81a\\b\"c",
        ])
    },
    dictionary: &["==", "!=", "=~", "!~", "^=", "$=", "*=", "header.", "\"", "\\", "method"],
    cases: 2000,
};

fn request(value: &[u8]) -> Request {
    let mut headers = Headers::new();
    headers.append("x", value);
    let target = Target::new("/".into()).expect("a path");
    Request::made_up(wire::Method::Get, target, headers)
}

/// Any expression is read or rejected with a sentence, and any text can be a value.
fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Condition::parse_expression(text) {
        Ok(condition) => {
            condition.holds(&request(b"a"));
            assert!(!condition.to_string().is_empty());
        }
        Err(why) => assert!(!why.is_empty(), "{text:?}"),
    }
    // A field value holds no line end.
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    let condition = Condition::parse_expression(&format!("header.x == \"{quoted}\""));
    let condition = condition.unwrap_or_else(|why| panic!("{text:?}: {why}"));
    assert!(condition.holds(&request(text.as_bytes())), "{text:?}");
    assert!(!condition.holds(&request(format!("{text}!").as_bytes())), "{text:?}");
}
