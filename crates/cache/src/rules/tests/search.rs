//! No-Vary-Search (draft-ietf-httpbis-no-vary-search).

use super::Case;
use crate::rules::{Policy, search};

fn canonical(rule: &str, query: &str) -> String {
    let rule = search::parse(rule.as_bytes()).unwrap();
    let mut out = Vec::new();
    search::canonical(query.as_bytes(), &rule, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn no_vary_search_s4_1_values_that_mean_every_parameter_matters() {
    for value in [
        "",
        "unknown-key",
        "key-order=\"not a boolean\"",
        "params=\"not a boolean or inner list\"",
        "params=(not-a-string)",
        "params=(\"a\"), except=(\"x\")",
        "params=(), except=()",
        "params=?0, except=(\"x\")",
        "params, except=(not-a-string)",
        "params, except=\"not an inner list\"",
        "params, except=?1",
        "except=(\"x\")",
        "except=()",
        "params=?0",
        "params=()",
        "key-order=?0",
        "key-order,",
        "params=(\"a\"",
    ] {
        assert_eq!(search::parse(value.as_bytes()), None, "{value}");
    }
}

#[test]
fn no_vary_search_s4_2_odd_values_that_are_valid() {
    let same = |a: &str, b: &str| {
        let parsed = search::parse(a.as_bytes());
        assert!(parsed.is_some() && parsed == search::parse(b.as_bytes()), "{a}");
    };
    same("params=?1", "params");
    same("key-order=?1", "key-order");
    same("params, key-order, except=(\"x\")", "key-order, params, except=(\"x\")");
    same("key-order, other=(1 2), x=:YQ==:", "key-order");
    same("except=(\"x\"), params", "params, except=(\"x\")");
}

#[test]
fn no_vary_search_s5_named_parameters_do_not_matter() {
    let rule = "params=(\"utm_source\" \"b\")";
    assert_eq!(canonical(rule, "a=1&utm_source=x&b&c=2"), "a=1&c=2");
    assert_eq!(canonical(rule, "utm_source=x"), "");
    assert_eq!(canonical("params=(\"%C3%A9+%E6%B0%97\")", "%c3%a9%20%e6%b0%97=1&a"), "a=");
}

#[test]
fn no_vary_search_s5_all_but_named_parameters_do_not_matter() {
    assert_eq!(canonical("params", "a=1&b=2"), "");
    assert_eq!(canonical("params, except=(\"id\")", "a=1&id=7&id=8"), "id=7&id=8");
}

#[test]
fn no_vary_search_s5_the_order_of_keys_may_not_matter() {
    assert_eq!(canonical("key-order", "b=2&a=1&b=1"), "a=1&b=2&b=1", "that of values does");
    assert_eq!(canonical("params=(\"x\")", "b=2&a=1"), "b=2&a=1");
}

#[test]
fn no_vary_search_s5_queries_are_read_as_forms_are() {
    let same = |a: &str, b: &str| {
        assert_eq!(canonical("key-order", a), canonical("key-order", b), "{a} {b}");
    };
    same("a=x", "%61=%78");
    same("a=%f6", "a=%ef%bf%bd");
    same("a=\u{e9}", "a=%C3%A9");
    same("a=x&&&&", "a=x");
    same("a=", "a");
    same("a=%20", "a=+");
    same("", "&");
    let differ = |a: &str, b: &str| {
        assert_ne!(canonical("key-order", a), canonical("key-order", b), "{a} {b}");
    };
    differ("a=b=c", "a=b&c");
    differ("a%3Db=c", "a=b%3Dc");
    differ("a%26b", "a&b");
    differ("a=%", "a=%25x");
    differ("a=%2", "a=2");
}

#[test]
fn no_vary_search_s6_it_is_read_if_the_policy_says_so() {
    let declared =
        "Cache-Control: max-age=60\nNo-Vary-Search: key-order\nNo-Vary-Search: params=(\"a\")";
    let rule = Case::default().evaluate(declared).unwrap().search.unwrap();
    assert!(rule.key_order && !rule.all && rule.params.len() == 1);
    let case = Case::under(Policy { no_vary_search: false, ..Policy::default() });
    assert_eq!(case.evaluate(declared).unwrap().search, None);
}
