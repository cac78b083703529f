//! `filters`: the cost that a key check, a rate limit and changes of headers add to a proxied
//! request.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::{Guard, Protocol};

/// `filter`: the cost of each filter, and of ten together.
pub(super) const COSTS: Scenario = Scenario {
    name: "filter",
    about: "a proxied request with one filter each, with ten, and without",
    cases: &[
        cost("filter-request-id", "request_id: {}"),
        cost("filter-rate-limit", "rate_limit: { rate: 1000000/s, burst: 1000000 }"),
        cost("filter-sliding", "rate_limit: { rate: 4000000/s, window: sliding }"),
        cost("filter-quota", "quota: { name: bench, limit: 4000000000, directory: quotas }"),
        cost("filter-concurrency", "concurrency: { limit: 100000 }"),
        cost("filter-circuit-breaker", "circuit_breaker: {}"),
        cost("filter-cors", "cors: { origins: ['https://a.example'] }"),
        cost("filter-csrf", "csrf: {}"),
        cost("filter-security-headers", "security_headers: {}"),
        cost("filter-query", "query: { remove: [debug] }"),
        cost("filter-cookies", "cookies: { remove: [_ga] }"),
        cost("filter-deny", "deny: { ip: [192.0.2.0/24] }"),
        cost("filter-waf", "waf: {}"),
        cost(
            "filter-ten",
            "request_id: {} }, { rate_limit: { rate: 1000000/s, burst: 1000000 } }, \
             { quota: { name: ten, limit: 4000000000, directory: quotas } }, \
             { concurrency: { limit: 100000 } }, { circuit_breaker: {} }, { csrf: {} }, \
             { security_headers: {} }, { query: { remove: [debug] } }, \
             { cookies: { remove: [_ga] } }, { deny: { ip: [192.0.2.0/24] }",
        ),
    ],
    by_default: false,
};

/// One filter, or several in the syntax of a list without its outermost braces.
const fn cost(name: &'static str, filter: &'static str) -> Case {
    Case {
        name,
        about: "GET of 2 KiB from one backend through this filter; `baseline` is tidegate \
                without it.",
        replays: None,
        serve: Serve::Filtered(filter),
        protocol: Protocol::Http1,
        kind: Kind::Load,
    }
}

pub(super) const SCENARIO: Scenario = Scenario {
    name: "filters",
    about: "a proxied request with a key, a rate limit and changed headers, and the same without",
    cases: &[
        Case {
            name: "filters",
            about: "GET of 2 KiB from one backend by clients with a key, within a rate; \
                    `baseline` is tidegate without both.",
            replays: None,
            serve: Serve::Guarded(Guard::Key),
            protocol: Protocol::Http1,
            kind: Kind::Load,
        },
        Case {
            name: "filters-headers",
            about: "The same; a header of the request and one of the response are set, others \
                    removed. caddy has no limit. `baseline` is tidegate without all.",
            replays: None,
            serve: Serve::Guarded(Guard::KeyAndHeaders),
            protocol: Protocol::Http1,
            kind: Kind::Load,
        },
    ],
    by_default: false,
};

/// `authentication`: the cost of credentials that were verified before.
pub(super) const AUTHENTICATION: Scenario = Scenario {
    name: "authentication",
    about: "a proxied request with a password and a rate limit, or with a JWT",
    cases: &[
        Case {
            name: "authentication-password",
            about: "GET of 2 KiB from one backend with a password that was verified before, \
                    within a rate; nginx compares a password in clear text. `baseline` is \
                    tidegate without both.",
            replays: None,
            serve: Serve::Guarded(Guard::Password),
            protocol: Protocol::Http1,
            kind: Kind::Load,
        },
        Case {
            name: "authentication-token",
            about: "GET of 2 KiB from one backend with a JWT (HS256) that was seen before; \
                    haproxy verifies each. `baseline` is tidegate without it.",
            replays: None,
            serve: Serve::Guarded(Guard::Token),
            protocol: Protocol::Http1,
            kind: Kind::Load,
        },
    ],
    by_default: false,
};
