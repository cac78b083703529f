//! One product: the demo page, the report of benchmarks, the console, the page of a fleet and the
//! pictures of configurations have the colours of `console/src/base.css`, and no others.

use std::fs;

const BASE: &str = "console/src/base.css";
/// Pages that include the base: they name its properties.
const PAGES: &[&str] = &[
    "crates/tidegate/src/demo/page.html",
    "crates/bench/src/report/html/style.css",
    "console/src/console.css",
    "tests/perf/fleet",
];
/// Pictures, which cannot include it: their colours are values of it.
const PICTURES: &[&str] =
    &["crates/tidegate/src/commands/explain/graph.rs", "console/src/icon.svg"];
/// What the browser gets of the console.
const BUNDLE: &str = "crates/admin/src/console/console.css";
/// Functions that make a colour from numbers.
const COLOUR_FUNCTIONS: &[&str] = &["rgb(", "rgba(", "hsl(", "hsla(", "light-dark("];

fn read(name: &str) -> String {
    let workspace = &crate::root();
    fs::read_to_string(workspace.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The colours in a text that are written as numbers: `#fff`, `#0b6e83`.
fn colours(text: &str) -> Vec<&str> {
    let colour = |(at, _): (usize, &str)| {
        let digits = text[at + 1..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let after = text[at + 1 + digits..].chars().next();
        // `#latency` selects an element, and `&#39;` is a character.
        let is_word = after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
        let is_colour = matches!(digits, 3 | 4 | 6 | 8) && !is_word && !text[..at].ends_with('&');
        is_colour.then(|| &text[at..=at + digits])
    };
    text.match_indices('#').filter_map(colour).collect()
}

/// Colours that a page names by itself.
fn foreign(text: &str) -> Vec<&str> {
    let functions = COLOUR_FUNCTIONS.iter().filter(|function| text.contains(**function));
    colours(text).into_iter().chain(functions.copied()).collect()
}

#[test]
fn all_pages_have_one_palette() {
    let base = read(BASE);
    let palette = colours(&base);
    assert!(palette.len() > 20, "{palette:?}");
    for page in PAGES {
        assert_eq!(foreign(&read(page)), [""; 0], "{page} has colours that {BASE} has not");
    }
    for picture in PICTURES {
        let text = read(picture);
        // Not those of tests.
        let found = colours(text.split("#[cfg(test)]").next().unwrap_or_default());
        assert!(!found.is_empty(), "{picture} has no colours");
        let unknown: Vec<_> = found.iter().filter(|colour| !palette.contains(*colour)).collect();
        assert!(unknown.is_empty(), "{picture}: {unknown:?} is not in {BASE}");
    }
    let bundle = read(BUNDLE);
    let missing: Vec<_> = palette.iter().filter(|colour| !bundle.contains(**colour)).collect();
    assert!(missing.is_empty(), "the bundle of the console lacks {missing:?}: make console");
}

#[test]
fn a_foreign_colour_is_seen() {
    assert_eq!(foreign("a { color: var(--ink); } #add-more { } &#39; #latency {"), [""; 0]);
    assert_eq!(foreign("a { color: #fff; background: #0B6E83 }"), ["#fff", "#0B6E83"]);
    assert_eq!(foreign("a { color: rgb(0 0 0) }"), ["rgb("]);
}
