//! Invariants of any table and any request: the compiled table agrees with a plain scan over the
//! sorted rules, and no rule that can match is reported as dead.
//!
//! The scan below shares no code with the crate: it sorts and matches in its own, slow way.

use crate::FuzzTarget;
use std::cmp::Reverse;

use message::{Headers, Request, Target};
use plugin::Condition;
use router::{
    HostPattern, Input, Match, MethodName, PathPattern, RouteId, RouteLookup, Router, Rule,
    RuleVerdict, Segment,
};
use settings::{OneOrMany, Span, Spanned, node};
use wire::Method;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: route_table,
    seeds: || {
        let bytes = |seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            (0..500).map(|_| random.u8(..)).collect()
        };
        (1..=200).map(bytes).chain([vec![255; 600], vec![]]).collect()
    },
    dictionary: &[],
    cases: 50,
};

const HOSTS: &[&str] = &["a.x", "b.a.x", "*.x", "*.a.x", "*.b.a.x", "[::1]"];
const SEGMENTS: &[&str] = &["a", "b", "{p}", "{q}", "é"];
const ANTS: &[&str] = &["/a/**", "/**/b", "/a/?/b", "/*", "/**", "/a*/**"];
const EXPRESSIONS: &[&str] = &["^/a/(?P<n>[a-z]+)$", "b", "^/b/a", "^/(?P<x>[^/]*)/(?P<y>.*)$"];
const METHODS: &[&str] = &["GET", "PUT", "POST", "PURGE"];
const LISTENERS: &[&str] = &["web", "inside"];

const ASKED_HOSTS: &[&str] =
    &["a.x", "A.X:80", "b.a.x", "c.b.a.x.", "x", "other", "", "[::1]:8080", ".x"];
const ASKED_SEGMENTS: &[&str] = &["a", "b", "c", "é", "aa"];
const ASKED_METHODS: &[&str] = &["GET", "HEAD", "PUT", "PURGE", "BREW"];
const ASKED_LISTENERS: &[&str] = &["web", "inside", "other"];

/// Choices taken from bytes; always the first choice once they have run out.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn below(&mut self, end: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % end
    }

    fn of<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.below(list.len())]
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }
}

/// Interprets any bytes as a table and some requests.
fn route_table(data: &[u8]) {
    let mut choices = Choices(data);
    let count = 1 + choices.below(24);
    let rules: Vec<Rule> = (0..count).map(|at| rule(at, &mut choices)).collect();
    let requests: Vec<Request> = (0..16).map(|_| request(&mut choices)).collect();
    let rules = living(rules, &requests);
    let Ok(router) = Router::compile(rules.clone()) else { panic!("dead rules are gone") };
    let worker = router.clone();
    for request in &requests {
        agree(&rules, &router, request);
        agree(&rules, &worker, request);
    }
}

/// The rules without the dead ones, after checking that those are dead.
fn living(mut rules: Vec<Rule>, requests: &[Request]) -> Vec<Rule> {
    while let Err(errors) = Router::compile(rules.clone()) {
        assert!(!errors.is_empty());
        for request in requests {
            if let Some((winner, _)) = scan(&rules, request) {
                let accused = errors.iter().find(|error| error.rule.index() == winner);
                assert!(accused.is_none(), "{accused:?} serves {}", shown(request));
            }
        }
        let dead: Vec<usize> = errors.iter().map(|error| error.rule.index()).collect();
        let mut at = 0;
        rules.retain(|_| {
            at += 1;
            !dead.contains(&(at - 1))
        });
    }
    rules
}

fn agree(rules: &[Rule], router: &Router, request: &Request) {
    let input = Input::from(request);
    let wanted = scan(rules, request);
    let found = router.find(&input);
    let verdict = router.explain(&input).verdict;
    match (&found, wanted) {
        (RouteLookup::Route(RouteId(id), params), Some((winner, values))) => {
            assert_eq!(*id as usize, winner, "{} of {rules:#?}", shown(request));
            let got: Vec<_> = params
                .names()
                .map(|name| {
                    let value = params.get(request.target.path(), name).unwrap_or("?");
                    (name.to_owned(), value.to_owned())
                })
                .collect();
            assert_eq!(got, values, "{}", shown(request));
            let RuleVerdict::Route(chosen) = verdict else { panic!("{verdict:?}") };
            assert_eq!((chosen.route, chosen.params), (RouteId(*id), got));
        }
        (RouteLookup::MethodNotAllowed(allow), None) => {
            assert_eq!(*allow, allowed(rules, request), "{}", shown(request));
            assert!(matches!(verdict, RuleVerdict::MethodNotAllowed(same) if same == *allow));
        }
        (RouteLookup::NotFound, None) => {
            assert_eq!(allowed(rules, request), "", "{}", shown(request));
            assert!(matches!(verdict, RuleVerdict::NotFound));
        }
        (found, wanted) => panic!("{}: {found:?}, wanted {wanted:?}", shown(request)),
    }
}

fn shown(request: &Request) -> String {
    let host = String::from_utf8_lossy(request.authority()).into_owned();
    format!("{} {host}{}", request.method.as_str(), request.target.path())
}

// The input of the comparison.

fn rule(at: usize, choices: &mut Choices<'_>) -> Rule {
    let mut matches = Match::default();
    for _ in 0..choices.below(3) {
        let host: HostPattern = choices.of(HOSTS).parse().expect("valid");
        matches.host.0.push(host);
    }
    for _ in 0..[1, 1, 1, 2, 0][choices.below(5)] {
        matches.path.0.push(pattern(choices));
    }
    for _ in 0..[0, 0, 1, 2][choices.below(4)] {
        matches.methods.0.push(MethodName(Method::from_bytes(choices.of(METHODS).as_bytes())));
    }
    if choices.one_in(4) {
        let value = choices.of(LISTENERS).to_owned();
        matches.listener = OneOrMany(vec![Spanned::new(value, Span::NOWHERE)]);
    }
    matches.when = match choices.below(5) {
        0 => Some(condition(node!({ "header": "x-h", "equals": "1" }))),
        1 => Some(condition(node!([{ "header": "x-h", "prefix": "1" }, { "scheme": "http" }]))),
        _ => None,
    };
    matches.priority = [0, 0, 0, 0, 1, -1][choices.below(6)];
    Rule { name: format!("r{at}"), span: Span::NOWHERE, matches }
}

fn condition(node: settings::Node) -> Condition {
    settings::read(&node).expect("valid")
}

fn pattern(choices: &mut Choices<'_>) -> PathPattern {
    match choices.below(8) {
        0 => PathPattern::PathGlob(choices.of(ANTS).parse().expect("valid")),
        1 => PathPattern::Regex(choices.of(EXPRESSIONS).parse().expect("valid")),
        _ => {
            let mut text = String::new();
            for _ in 0..choices.below(4) {
                let segment = choices.of(SEGMENTS);
                // No parameter name twice.
                if !segment.starts_with('{') || !text.contains(segment) {
                    text = text + "/" + segment;
                }
            }
            text += match choices.below(6) {
                0 => "/{*rest}",
                1 => "/",
                _ if text.is_empty() => "/",
                _ => "",
            };
            PathPattern::Segments(text.parse().expect("valid"))
        }
    }
}

fn request(choices: &mut Choices<'_>) -> Request {
    let mut headers = Headers::new();
    headers.append("host", choices.of(ASKED_HOSTS));
    if choices.one_in(2) {
        headers.append("x-h", "1");
    }
    let mut path = String::new();
    for _ in 0..choices.below(5) {
        path = path + "/" + choices.of(ASKED_SEGMENTS);
    }
    if path.is_empty() || choices.one_in(5) {
        path.push('/');
    }
    let method = Method::from_bytes(choices.of(ASKED_METHODS).as_bytes());
    let mut request = Request::made_up(method, Target::new(path.into()).expect("there"), headers);
    let mut facts = (*request.facts).clone();
    facts.listener = choices.of(ASKED_LISTENERS).into();
    request.facts = facts.into();
    request
}

// The expected result, the slow way.

type Values = Vec<(String, String)>;

/// The rule that wins, with its parameters.
fn scan(rules: &[Rule], request: &Request) -> Option<(usize, Values)> {
    let mut fitting = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        if !takes_method(rule, &request.method) {
            continue;
        }
        fitting.extend(fits(rule, request).into_iter().map(|(key, values)| (key, at, values)));
    }
    // Sorting is stable: entries of one rule keep their order.
    fitting.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    fitting.into_iter().next().map(|(_, at, values)| (at, values))
}

/// The methods of the rules that match except for it.
fn allowed(rules: &[Rule], request: &Request) -> String {
    let mut names: Vec<&str> = Vec::new();
    for rule in rules.iter().filter(|rule| !fits(rule, request).is_empty()) {
        for MethodName(method) in rule.matches.methods.iter() {
            names.push(method.as_str());
            names.extend((*method == Method::Get).then_some("HEAD"));
        }
    }
    let listed = ["GET", "HEAD", "POST", "PUT", "PURGE"].into_iter();
    listed.filter(|name| names.contains(name)).collect::<Vec<_>>().join(", ")
}

fn takes_method(rule: &Rule, method: &Method) -> bool {
    let methods = &rule.matches.methods;
    methods.is_empty()
        || methods
            .iter()
            .any(|name| name.0 == *method || (name.0 == Method::Get && *method == Method::Head))
}

type Key = (Reverse<i64>, u8, Reverse<usize>, Vec<u8>, Reverse<usize>);

/// Every matching host and path of a rule, with its position in the order.
fn fits(rule: &Rule, request: &Request) -> Vec<(Key, Values)> {
    let Match { listener, host, path, methods, when, priority } = &rule.matches;
    let called = |name: &Spanned<String>| *name.value == *request.facts.listener;
    let holds = when.as_ref().is_none_or(|condition| condition.holds(request));
    if !(listener.is_empty() || listener.iter().any(called)) || !holds {
        return Vec::new();
    }
    let conditions = when.as_ref().map_or(0, Condition::tests)
        + usize::from(!methods.is_empty())
        + usize::from(!listener.is_empty());
    let hosts: Vec<_> = match host.is_empty() {
        true => vec![(2, 0)],
        false => host.iter().map(|pattern| host_fits(pattern, request)).collect::<Vec<_>>(),
    };
    let paths: Vec<_> = match path.is_empty() {
        true => vec![Some((vec![3], Vec::new()))],
        false => path.iter().map(|pattern| path_fits(pattern, request.target.path())).collect(),
    };
    let mut all = Vec::new();
    for (class, length) in &hosts {
        for path in &paths {
            if let (Some((kinds, values)), true) = (path, *class != NO_HOST) {
                let (priority, length) = (Reverse(*priority), Reverse(*length));
                let key = (priority, *class, length, kinds.clone(), Reverse(conditions));
                all.push((key, values.clone()));
            }
        }
    }
    all
}

const NO_HOST: u8 = 9;

fn host_fits(pattern: &HostPattern, request: &Request) -> (u8, usize) {
    let host = String::from_utf8_lossy(request.authority()).to_lowercase();
    let host = match host.starts_with('[') {
        true => &host[..=host.find(']').expect("there")],
        false => host.split(':').next().expect("there"),
    };
    let host = host.trim_end_matches('.');
    match pattern.to_string().strip_prefix('*') {
        None if *host == pattern.to_string() => (0, 0),
        Some(tail) if host.ends_with(tail) && host.len() > tail.len() => (1, tail.len()),
        _ => (NO_HOST, 0),
    }
}

fn path_fits(pattern: &PathPattern, path: &str) -> Option<(Vec<u8>, Values)> {
    let parts = match pattern {
        PathPattern::Segments(segments) => segments.parts(),
        PathPattern::PathGlob(ant) => return ant.is_match(path).then(|| (vec![4], Vec::new())),
        PathPattern::Regex(regex) => {
            let groups = regex.captures(path)?;
            let named = regex.capture_names().flatten();
            let values = named.map(|name| (name.to_owned(), groups[name].to_owned()));
            return Some((vec![4], values.collect()));
        }
    };
    let mut kinds = Vec::new();
    let mut values = Vec::new();
    let mut given: Vec<&str> = path.split('/').skip(1).collect();
    for part in parts {
        match part {
            Segment::Rest(name) => {
                kinds.push(3);
                values.push((name.to_string(), given.join("/")));
                return Some((kinds, values));
            }
            Segment::Literal(text) if given.first() == Some(&&*text) => kinds.push(1),
            Segment::Param(name) if given.first().is_some_and(|text| !text.is_empty()) => {
                kinds.push(2);
                values.push((name.to_string(), given[0].to_owned()));
            }
            _ => return None,
        }
        given.remove(0);
    }
    given.is_empty().then_some((kinds, values))
}
