//! What is stored outlives the configuration it was stored under.

use super::{Origin, api, cache, config, get, is_hit};
use scenarios::Tidegate;

fn reload(server: &Tidegate, text: &str) {
    // The address of the listener is a new one for each server only, not for each reload.
    server.rewrite_config(text);
    let (status, response) = api(server, "POST /v1/reload?wait", "");
    assert_eq!(status, 200, "{response}");
}

#[test]
fn a_reload_keeps_what_is_stored_and_resizes() {
    let origin = Origin::counting("cache-control: max-age=60\r\n");
    let server = cache(&origin, "");
    get(&server, "/", "");
    reload(&server, &config(&origin, "x_status: true", "32MiB"));
    let after = get(&server, "/", "");
    assert!(is_hit(&after) && after.header("x-status") == Some("hit"), "{after:?}");
    let (_, shown) = api(&server, "GET /v1/caches/pages", "");
    assert_eq!((&shown["memory_bytes"], &shown["objects"]), (&(32 << 20).into(), &1.into()));
}

#[test]
fn a_cache_that_is_gone_takes_its_content_along() {
    let origin = Origin::counting("cache-control: max-age=60\r\n");
    let server = cache(&origin, "");
    get(&server, "/", "");
    let renamed = config(&origin, "", "64MiB").replace("pages", "others");
    reload(&server, &renamed);
    assert!(!is_hit(&get(&server, "/", "")));
    let (status, response) = api(&server, "GET /v1/caches/pages", "");
    assert_eq!(status, 404, "{response}");
    assert!(response["advice"].as_str().unwrap_or_default().contains("others"), "{response}");
    reload(&server, &config(&origin, "", "64MiB"));
    assert!(!is_hit(&get(&server, "/", "")), "it is empty again");
}

/// Routes without a name are named by their position, which this reload changes.
#[test]
fn a_route_that_is_removed_leaves_nothing_to_the_next_one() {
    let origin = Origin::counting("cache-control: max-age=60\r\n");
    let text = config(&origin, "", "64MiB").replace("- name: all\n    match", "- match");
    let (head, open) = text.split_once("routes:\n").expect("routes");
    let inner = open.replace("rest}\" }", "rest}\", when: { header: x-team, equals: a } }");
    let server = Tidegate::start(&format!("{head}routes:\n{inner}{open}"));
    assert_eq!(get(&server, "/", "x-team: a\r\n").text(), "answer 0");
    assert_eq!(get(&server, "/", "").text(), "answer 1");
    reload(&server, &text);
    let after = get(&server, "/", "");
    assert!(is_hit(&after) && after.text() == "answer 1", "{after:?}");
}
