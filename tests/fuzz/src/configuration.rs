//! Configurations: any text.

use crate::FuzzTarget;
use config::{Kinds, TextSource, document_json, load};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: configuration,
    seeds: || {
        let valid = include_bytes!("../../../crates/config/tests/valid/contract.yaml");
        vec![valid.to_vec()]
    },
    dictionary: &[
        "{",
        "}",
        "[",
        "]",
        ":",
        ": ",
        "- ",
        "\n",
        "\n  ",
        "\t",
        "\"",
        "'",
        "#",
        "&a ",
        "*a",
        "!!str ",
        "<<: ",
        "? ",
        "| ",
        "> ",
        "---\n",
        "...\n",
        "${",
        "${HOME}",
        "$${",
        "{host}",
        "{path.x}",
        "unlimited",
        "5s",
        "1e9",
        "-0",
        "\u{0}",
        "\u{feff}",
        "ü",
        "\u{10ffff}",
        "%YAML 1.2\n",
        "@",
        "`",
        "\r\n",
        "\u{85}",
        "\u{2028}",
        "listeners:",
        "routes:",
    ],
    cases: 250,
};

/// A configuration: any text. It gives a plan or errors, the same ones each time; whatever is in
/// the environment is in no error; what is refused as a document is refused as a configuration.
fn configuration(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    const HELD: &str = "4f9d2c81b7";
    let environment = |name: &str| (name == "HOME").then(|| HELD.to_owned());
    let source = TextSource::new("any.yaml", text);
    let refused = || load(&source, &environment, &Kinds::all()).err().map(|report| report.render());
    let report = refused();
    assert_eq!(report, refused(), "another report the second time");
    if let Some(report) = &report {
        assert!(!report.is_empty(), "refused without an error");
        assert!(
            !report.contains(HELD) || text.contains(HELD),
            "the environment is shown:\n{report}"
        );
    }
    if document_json(&source).is_err() {
        assert!(report.is_some(), "no document and yet a plan");
    }
}
