//! `check`: every error of a configuration, for people and for tools.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{ended, run_in, tidegate};

const RIGHT: &str = "\
listeners: { web: { bind: \"127.0.0.1:0\" } }
routes: [{ handler: { respond: { body: pong } } }]
";

/// The lines of a report that say what is wrong.
fn errors(report: &str) -> Vec<&str> {
    report.lines().filter_map(|line| line.strip_prefix("error: ")).collect()
}

#[track_caller]
fn checked(text: &str) -> String {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("tidegate.yaml"), text).unwrap();
    run_in(directory.path(), &["check"]).failed(2)
}

#[test]
fn a_missing_or_misspelt_required_key_hides_no_other_error() {
    for handler in ["handlr: { respond: { bdy: x } }", "", "handler: { repsond: { bdy: x } }"] {
        let why = checked(&format!(
            "listeners: {{ web: {{ bind: \"127.0.0.1:0\" }} }}
chains: {{ security: [], tracing: [] }}
routes:
  - match: {{ path: /x, methods: [GTE] }}
    filters: [{{ chain: zzz }}, {{ rate_limit: {{ rate: 10/s, brust: 3 }} }}]
    limits: {{ body: 5x }}
    {handler}
"
        ));
        let mut wanted = vec![
            "unknown method \"GTE\", did you mean \"GET\"?",
            "there is no chain \"zzz\"",
            "unknown key \"brust\", did you mean \"burst\"?",
            "\"5x\" is not a size",
        ];
        if handler.is_empty() {
            wanted.push("key \"handler\" is missing");
        } else {
            wanted.push("unknown key \"bdy\", did you mean \"body\"?");
        }
        let found = errors(&why);
        for message in &wanted {
            assert!(found.contains(message), "{why}\nwanted {message}");
        }
        let extra = usize::from(!handler.is_empty());
        assert_eq!(found.len(), wanted.len() + extra, "{why}");
        let total = format!("\n{} errors in tidegate.yaml\n", found.len());
        assert!(why.ends_with(&total), "{why}");
        assert!(why.contains("valid here: security, tracing"), "{why}");
    }
}

#[test]
fn a_guess_that_does_not_fit_is_not_reported() {
    let why = checked(&RIGHT.replace("bind:", "tiemout: 5, bind:"));
    assert_eq!(errors(&why).len(), 1, "{why}");
    assert!(why.ends_with("\n1 error in tidegate.yaml\n"), "{why}");
}

#[test]
fn a_broken_match_shadows_no_other_route() {
    let route =
        |path| format!("  - {{ match: {{ path: {path} }}, handler: {{ respond: {{}} }} }}\n");
    let text = RIGHT.lines().next().unwrap();
    let why = checked(&format!("{text}\nroutes:\n{}{}", route("nope"), route("/{*rest}")));
    assert_eq!(errors(&why).len(), 1, "{why}");
}

#[test]
fn what_is_not_closed_is_shown_where_it_opens() {
    for (text, place, message) in [
        (
            "listeners: { web: { bind: \":80\" }\nroutes: []\n",
            "tidegate.yaml:1:12",
            "this { is not closed",
        ),
        (
            "listeners:\n  web: { bind: \":80 }\nroutes: [{ name: \"x\" }]\n",
            "tidegate.yaml:2:16",
            "this \" is not closed",
        ),
        ("routes:\n  - match: { methods: [GET }\n", "tidegate.yaml:2:23", "this [ is not closed"),
    ] {
        let why = checked(text);
        assert!(why.contains(place) && errors(&why) == [message], "{why}");
    }
}

#[test]
fn ranges_and_references_say_what_is_possible() {
    let why = checked(&format!("trusted_proxies: [10.0.0.0/33, \"::/129\"]\n{RIGHT}"));
    assert!(why.contains("at most 32 for IPv4") && why.contains("at most 128 for IPv6"), "{why}");
    let handler = RIGHT.replace("respond: { body: pong }", "upstream: web");
    let why = checked(&handler);
    assert!(why.contains("no upstream is declared: add it under upstreams:"), "{why}");
    let why = checked(&RIGHT.replace("handler:", "filters: [compress, zzz], handler:"));
    assert!(why.contains("write { compress: { … } }") && why.contains("{ chain: NAME }"), "{why}");
}

/// Checks what is written to standard input.
fn from_stdin(directory: &TempDir, text: &str, options: &[&str]) -> crate::process::Ended {
    let mut command = tidegate(directory.path(), &[&["check", "-"], options].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read it has ended already.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    ended(child.wait_with_output().unwrap())
}

#[test]
fn standard_input_is_checked_and_includes_files() {
    let directory = TempDir::new().unwrap();
    assert_eq!(
        from_stdin(&directory, RIGHT, &[]).printed(),
        "ok: 1 route, 0 upstreams, 1 listener\n"
    );
    let why = from_stdin(&directory, &RIGHT.replace("bind", "bnid"), &[]).failed(2);
    assert!(why.contains("--> stdin:1:21") && why.ends_with("1 error in stdin\n"), "{why}");
    let more = "routes: [{ name: two, match: { path: /2 }, handler: { respond: {} } }]\n";
    std::fs::write(directory.path().join("more.yaml"), more).unwrap();
    let text = format!("include: [more.yaml]\n{RIGHT}");
    assert!(from_stdin(&directory, &text, &[]).printed().starts_with("ok: 2 routes"));
}

#[test]
fn sarif_has_the_rule_the_message_and_the_place_of_each_error() {
    let directory = TempDir::new().unwrap();
    let wrong = RIGHT.replace("bind:", "tiemout: 5, bind:").replace("pong", "{path.id}");
    let wrong = wrong.replace("handler:", "handlr: { upstream: x }, handler:");
    std::fs::write(directory.path().join("a b.yaml"), wrong).unwrap();
    let ended = run_in(directory.path(), &["check", "a b.yaml", "--json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(2), ""), "{}", ended.stdout);
    let log: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().contains("sarif-2.1.0"));
    let run = &log["runs"][0];
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "tidegate");
    let ids: Vec<_> = driver["rules"].as_array().unwrap().iter().map(|rule| &rule["id"]).collect();
    let results = run["results"].as_array().unwrap();
    assert!(results.len() >= 2, "{log:#}");
    for result in results {
        assert!(ids.contains(&&result["ruleId"]), "{log:#}");
        assert_eq!(result["level"], "error");
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "a%20b.yaml");
        let region = &place["region"];
        for (from, to) in [("startLine", "endLine"), ("startColumn", "endColumn")] {
            let (from, to) = (region[from].as_u64().unwrap(), region[to].as_u64().unwrap());
            assert!(from >= 1 && to >= from, "{log:#}");
        }
    }
    let first = &results[0];
    assert_eq!(first["ruleId"], "unknown-name");
    assert_eq!(first["locations"][0]["physicalLocation"]["region"]["startColumn"], 21);

    std::fs::write(directory.path().join("right.yaml"), RIGHT).unwrap();
    let printed = run_in(directory.path(), &["check", "right.yaml", "--json"]).printed();
    let log: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(log["runs"][0]["results"], serde_json::json!([]));
}

#[test]
fn variables_that_are_not_set_can_be_allowed() {
    let directory = TempDir::new().unwrap();
    let check = |text: &str| {
        std::fs::write(directory.path().join("tidegate.yaml"), text).unwrap();
        run_in(directory.path(), &["check", "--allow-unset-env"])
    };
    let text = RIGHT.replace("127.0.0.1:0", "${TIDEGATE_TEST_BIND}");
    let printed = check(&text).printed();
    assert!(
        printed.starts_with("ok: ") && printed.contains("TIDEGATE_TEST_BIND is not set"),
        "{printed}"
    );
    let why = run_in(directory.path(), &["check"]).failed(2);
    assert!(why.contains("\"TIDEGATE_TEST_BIND\" is not set"), "{why}");
    // Other errors are found, and nothing that only the variable would have made right is one.
    let why = check(&text.replace("pong", "pong, sttaus: 200")).failed(2);
    assert_eq!(errors(&why), ["unknown key \"sttaus\", did you mean \"status\"?"]);
    let text = format!("upstreams: {{ a: {{ servers: [\"127.0.0.1:1\"] }} }}\n{RIGHT}");
    let text = text.replace(
        "handler: { respond: { body: pong } }",
        "handler: { upstream: \"${TIDEGATE_TEST_NAME}\" }",
    );
    assert!(check(&text).printed().contains("TIDEGATE_TEST_NAME"));
}

#[test]
fn an_access_log_that_cannot_be_written_is_noted() {
    let directory = TempDir::new().unwrap();
    let check = |path: &str| {
        let text = format!("log: {{ access: {{ path: {path} }} }}\n{RIGHT}");
        std::fs::write(directory.path().join("tidegate.yaml"), text).unwrap();
        run_in(directory.path(), &["check"]).printed()
    };
    let printed = check("nowhere/access.log");
    assert!(
        printed.contains("note: log.access.path: ") && printed.contains("cannot be written"),
        "{printed}"
    );
    assert!(
        printed.contains("nowhere/access.log") && printed.starts_with("ok: 1 route"),
        "{printed}"
    );
    assert!(!check("access.log").contains("note:"));
    assert!(!directory.path().join("access.log").exists(), "a check creates nothing");
}

#[test]
fn arguments_of_explain_in_another_order_are_recognised() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("site.yaml"), RIGHT).unwrap();
    std::fs::write(directory.path().join("tidegate.yaml"), RIGHT).unwrap();
    for (words, wanted) in [
        (&["http://a/x", "GET"][..], "tidegate explain GET http://a/x"),
        (&["/x", "DELETE", "site.yaml"], "tidegate explain site.yaml DELETE /x"),
        (&["GET", "/x", "site.yaml"], "tidegate explain site.yaml GET /x"),
        (&["GET", "site.yaml", "/x"], "tidegate explain site.yaml GET /x"),
        (&["site.yaml", "/x"], "tidegate explain site.yaml GET /x"),
        (&["/x"], "tidegate explain GET /x"),
        (&["GET"], "tidegate explain GET http://127.0.0.1:8080/"),
    ] {
        let why = run_in(directory.path(), &[&["explain"], words].concat()).failed(2);
        assert!(why.ends_with(&format!("Write: {wanted}\n")), "{words:?}: {why}");
    }
    for words in [&["GET", "/site.yaml"][..], &["site.yaml", "GET", "/x"], &["BREW", "/x"]] {
        run_in(directory.path(), &[&["explain"], words].concat()).printed();
    }
}
