//! Places, spelling, limits and refusals of the YAML reader.

use settings::{Node, Report, Span};

use super::parse;

fn read(text: &str) -> (Option<Node>, Report) {
    let mut report = Report::new();
    let source = report.add_document("t.yaml", text, None);
    let node = parse(text, source, &mut report);
    (node, report)
}

fn tree(text: &str) -> Node {
    let (node, report) = read(text);
    assert!(report.is_empty(), "{report}");
    node.unwrap()
}

fn errors(text: &str) -> String {
    let (_, report) = read(text);
    assert!(!report.is_empty(), "no error in {text:?}");
    report.render()
}

fn at(span: Span) -> (u32, u32, u32, u32) {
    (span.line, span.column, span.end_line, span.end_column)
}

#[test]
fn places_are_exact() {
    let root = tree("a: 1\nbü: { c: \"xyz\", d: [1, zwei] }\ne:\n  f: g\n  h:\n    - i\n");
    let map = root.map().unwrap();
    assert_eq!(at(map[0].0.span), (1, 1, 1, 2));
    assert_eq!(at(map[0].1.span), (1, 4, 1, 5));
    let flow = &map[1].1;
    assert_eq!(at(flow.span), (2, 5, 2, 31));
    assert_eq!(at(flow.get("c").unwrap().span), (2, 10, 2, 15));
    assert_eq!(at(flow.get("d").unwrap().span), (2, 20, 2, 29));
    assert_eq!(at(flow.get("d").unwrap().list().unwrap()[1].span), (2, 24, 2, 28));
    // A block is shown at the key that holds it.
    assert_eq!(at(map[2].1.span), (3, 1, 3, 2));
    assert_eq!(at(map[2].1.get("f").unwrap().span), (4, 6, 4, 7));
    assert_eq!(at(map[2].1.get("h").unwrap().span), (5, 3, 5, 4));
}

#[test]
fn json_is_yaml() {
    let root = tree("{\"a\": [1, true, null, \"x\"],\n \"b\": {}}");
    assert_eq!(root.to_json().to_string(), r#"{"a":[1,true,null,"x"],"b":{}}"#);
}

#[test]
fn scalars_keep_their_spelling() {
    let root = tree("a: 0755\nb: on\nc: '8080'\nd: ~\ne:\nf: |\n  two\n  lines\ng: 1.10\nh: ''\n");
    let text = |key: &str| root.get(key).and_then(Node::text);
    assert_eq!((text("a"), text("b"), text("c")), (Some("0755"), Some("on"), Some("8080")));
    assert!(root.get("d").unwrap().is_null() && root.get("e").unwrap().is_null());
    assert_eq!((text("f"), text("g"), text("h")), (Some("two\nlines\n"), Some("1.10"), Some("")));
}

#[test]
fn aliases_are_what_they_name() {
    let root = tree("a: &x { b: [1, 2] }\nc: *x\n");
    assert_eq!(root.get("a").unwrap().to_json(), root.get("c").unwrap().to_json());
    assert!(errors("a: *unknown\n").contains("t.yaml:1:"));
    assert!(errors("a: &x [*x]\n").contains("not complete"));
}

#[test]
fn a_bomb_of_aliases_is_an_error() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for n in 1..10 {
        let before = n - 1;
        let refs = vec![format!("*a{before}"); 9].join(",");
        bomb.push_str(&format!("a{n}: &a{n} [{refs}]\n"));
    }
    assert!(errors(&bomb).contains("more than 2000000 values"));
}

#[test]
fn depth_is_bounded() {
    let deep = format!("a: {}{}", "[".repeat(100), "]".repeat(100));
    assert!(errors(&deep).contains("nested deeper than 64 levels"));
    let block: String = (0..100).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
    assert!(errors(&block).contains("nested deeper than 64 levels"));
    let out = errors(&"[".repeat(100_000));
    assert!(out.contains("nested deeper"), "{out}");
    assert!(errors(&"- ".repeat(100_000)).contains("nested deeper"));
}

#[test]
fn what_has_no_meaning_is_refused() {
    for (text, expected) in [
        ("a: 1\nb: 2\na: 3\n", "key \"a\" is repeated"),
        ("a: 1\nb: 2\na: 3\n", "it stands in line 1 too"),
        ("x: &x { a: 1 }\ny:\n  <<: *x\n", "merge keys (<<) are not supported"),
        ("a: 1\n---\nb: 2\n", "a second document starts here"),
        ("a: !!str 5\n", "has no meaning here"),
        ("? [a]\n: b\n", "a key is a text"),
        (": b\n", "a key is a text"),
    ] {
        let out = errors(text);
        assert!(out.contains(expected), "{out}\nwanted {expected}");
    }
}

#[test]
fn repeated_keys_are_found_among_many() {
    for repeated in [0, 15, 16, 17, 39] {
        let keys = (0..40).chain([repeated]).map(|key| format!("k{key}: 1\n"));
        let out = errors(&keys.collect::<String>());
        let line = format!("it stands in line {} too", repeated + 1);
        assert!(out.contains(&line) && out.contains("t.yaml:41:1"), "{repeated}: {out}");
    }
}

#[test]
fn syntax_is_shown_where_it_breaks() {
    for (text, expected) in [
        ("a:\n\tb: 1\n", "a tab cannot indent YAML"),
        ("a: {b: 1\n", "t.yaml:1:4"),
        ("a: [1, 2\nb: 3\n", "this [ is not closed"),
        ("a: \"x\n", "this \" is not closed"),
        ("a: b: c\n", "t.yaml:1:5"),
        ("{ path: /{*rest} }\n", "is quoted: \"${NAME}\""),
        ("a: @x\n", "t.yaml:1:4"),
    ] {
        let out = errors(text);
        assert!(out.contains(expected), "{text:?}: {out}\nwanted {expected}");
        assert!(out.contains('^'), "{out}");
    }
}

#[test]
fn empty_documents_have_no_content() {
    for text in ["", "\n", "# only a comment\n", "---\n"] {
        let (node, report) = read(text);
        assert!(node.is_none_or(|node| node.is_null()) && report.is_empty(), "{text:?} {report}");
    }
    assert_eq!(tree("\u{feff}a: 1").get("a").and_then(Node::text), Some("1"));
}
