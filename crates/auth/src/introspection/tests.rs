//! Settings of the filter that cannot work, and its description.

use plugin::testing::{errors, plan};
use settings::node;

use super::*;

#[test]
fn settings_that_cannot_work_are_errors() {
    let url = "https://id.test/introspect";
    for (settings, why) in [
        (node!({ "client_id": "a", "client_secret": "s" }), "url"),
        (node!({ "url": url, "client_id": "a" }), "client_secret"),
        (
            node!({ "url": url, "client_id": "", "client_secret": "s" }),
            "client_id is the name of the gateway",
        ),
        (
            node!({ "url": "http://id.test/", "client_id": "a", "client_secret": "s", "tls": {} }),
            "`tls` has no effect",
        ),
        (
            node!({ "url": url, "client_id": "a", "client_secret": "s", "from": [] }),
            "there is no place to look for a token",
        ),
        (
            node!({ "url": url, "client_id": "a", "client_secret": "s", "consumer_claim": "" }),
            "the name of the claim is empty",
        ),
        (
            node!({ "url": url, "client_id": "a", "client_secret": "s", "realm": "a\"b" }),
            "the realm is ASCII text",
        ),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
}

#[test]
fn a_description_has_no_secret() {
    let settings = node!({
        "url": "https://id.test/introspect?key=hidden", "client_id": "a", "client_secret": "s3",
    });
    assert_eq!(plan(&KIND, &settings).unwrap().describe(), "by id.test");
}
