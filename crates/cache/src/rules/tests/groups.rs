//! RFC 9875, and tags.

use super::{Case, fields};
use crate::limits::TAGS_MAX;
use crate::rules::{UncachedReason, invalidate, tags};

fn stored(headers: &str) -> Box<[u64]> {
    Case::default().evaluate(&format!("Cache-Control: max-age=60\n{headers}")).unwrap().tags
}

fn invalidated(origin: &str, headers: &str) -> Vec<u64> {
    invalidate::targets(origin.as_bytes(), b"/", 200, &fields(headers)).groups
}

const ORIGIN: &str = "http://example.com";

fn is_hit(stored_declared: &str, invalidation: &str) -> bool {
    let tags = stored(&format!("Cache-Groups: {stored_declared}"));
    let groups = invalidated(ORIGIN, &format!("Cache-Group-Invalidation: {invalidation}"));
    groups.iter().any(|group| tags.contains(group))
}

#[test]
fn rfc9875_s2_a_response_is_in_all_groups_it_lists() {
    for group in ["\"a\"", "\"b c\"", "\"b c\", \"x\"", "\"a\";ignored=1"] {
        assert!(is_hit("\"a\", \"b c\";p=1", group), "{group}");
    }
}

#[test]
fn rfc9875_s2_at_least_32_groups_of_32_characters_are_kept() {
    let name = |i: usize| format!("\"{i:032}\"");
    let list = (0..64).map(name).collect::<Vec<_>>().join(", ");
    for i in [0, 31, 63] {
        assert!(is_hit(&list, &name(i)));
        assert!(is_hit(&name(i), &list));
    }
}

#[test]
fn rfc9875_s2_1_groups_have_case() {
    assert!(!is_hit("\"a\"", "\"A\"") && !is_hit("\"a\"", "\"a \"") && !is_hit("\"a\"", "\"\""));
}

#[test]
fn rfc9875_s2_1_groups_are_an_origins_own() {
    let tags = stored("Cache-Groups: \"a\"");
    let declared = "Cache-Group-Invalidation: \"a\"";
    for other in ["https://example.com", "http://example.org", "http://example.com:81"] {
        let groups = invalidated(other, declared);
        assert!(!groups.iter().any(|group| tags.contains(group)), "{other}");
    }
    assert!(tags.contains(&tags::group(b"a")), "a purge names no origin");
}

#[test]
fn rfc9875_s2_what_is_not_a_list_of_strings_is_ignored() {
    for bad in ["a", "\"a\", b", "\"a", "\"a\", 1", "(\"a\")", "\"a\",", ":YQ==:"] {
        assert!(stored(&format!("Cache-Groups: {bad}")).is_empty(), "{bad}");
        let declared = format!("Cache-Group-Invalidation: {bad}");
        assert!(invalidated(ORIGIN, &declared).is_empty(), "{bad}");
    }
}

#[test]
fn rfc9875_s3_only_responses_that_are_not_errors_to_unsafe_requests_invalidate_groups() {
    let headers = fields("Cache-Group-Invalidation: \"a\"");
    let groups = |status| invalidate::targets(b"http://a", b"/", status, &headers).groups;
    assert_eq!(groups(200), [tags::group_of(b"http://a", b"a")]);
    assert!(groups(500).is_empty());
    // The field is ignored on responses to safe requests, and does not assign a group to them.
    assert!(stored("Cache-Group-Invalidation: \"a\"").is_empty());
}

#[test]
fn tags_are_words_of_surrogate_key_and_members_of_cache_tag() {
    let found = stored("Surrogate-Key: a  b,c\nSurrogate-Key: d\nCache-Tag: e f, g ,, a");
    let mut expected: Vec<u64> =
        ["a", "b,c", "d", "e f", "g"].iter().map(|text| tags::tag(text.as_bytes())).collect();
    expected.sort_unstable();
    assert_eq!(&*found, expected);
    assert_ne!(tags::tag(b"a"), tags::group(b"a"));
    // The tier on disk outlives the process that wrote it.
    assert_eq!(tags::tag(b"news"), TAG_OF_NEWS);
}

const TAG_OF_NEWS: u64 = 0xedb9_b5ce_94c5_7eba;

#[test]
fn more_tags_than_are_kept_are_not_stored() {
    let list = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!(stored(&format!("Surrogate-Key: {}", list(TAGS_MAX))).len(), TAGS_MAX);
    let declared = format!("Cache-Control: max-age=60\nSurrogate-Key: {}", list(TAGS_MAX + 1));
    assert_eq!(Case::default().refusal(&declared), Some(UncachedReason::Tags));
}
