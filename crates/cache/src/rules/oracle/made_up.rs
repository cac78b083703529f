//! Random responses and requests from fixed seeds, for which the oracle and the rules must agree.

use message::Headers;
use wire::Method;

use super::{OracleDecision, reuse, store};
use crate::rules::tests::{NOW, date};
use crate::rules::{
    Disposition, FetchContext, Flags, Heuristic, Meta, Policy, RequestDirectives, Reuse,
    StorableResponse, Times,
};
use crate::rules::{request, reuse as reusing, store as storage};

/// A response, the request it responds to, and the policy.
#[derive(Debug)]
pub(super) struct RandomExchange {
    pub(super) request: Vec<(String, String)>,
    pub(super) status: u16,
    pub(super) response: Vec<(String, String)>,
    pub(super) delay_s: u64,
    pub(super) policy: Policy,
}

/// A random generator with the same sequence in every run.
struct Random(fastrand::Rng);

impl Random {
    fn below(&mut self, sides: u64) -> u64 {
        self.0.u64(..sides)
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.below(sides) == 0
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A number of seconds: mostly small, sometimes malformed.
    fn seconds(&mut self) -> String {
        match self.below(12) {
            0 => "0".to_owned(),
            1 => self.of(&["x", "-1", "1.5", "", "99999999999999", "\"30\""]).to_owned(),
            _ => self.below(60).to_string(),
        }
    }

    fn date(&mut self) -> String {
        match self.below(8) {
            0 => self.of(&["0", "never", "-1"]).to_owned(),
            1 => date(self.below(100) as i64 - 50).to_lowercase(),
            _ => date(self.below(400) as i64 - 200),
        }
    }

    fn cache_control(&mut self, names: &[&str]) -> String {
        let mut declared = Vec::new();
        for _ in 0..=self.below(4) {
            let name = self.of(names);
            let name = if self.one_in(6) { name.to_uppercase() } else { name.to_owned() };
            declared.push(name.replace('#', &self.seconds()));
        }
        declared.join(if self.one_in(3) { "," } else { ", " })
    }
}

const ANSWERS: [&str; 24] = [
    "max-age=#",
    "max-age=#",
    "max-age=#",
    "max-age=#",
    "s-maxage=#",
    "stale-while-revalidate=#",
    "stale-while-revalidate=#",
    "stale-if-error=#",
    "stale-if-error=#",
    "public",
    "public",
    "immutable",
    "no-transform",
    "must-revalidate",
    "proxy-revalidate",
    "no-cache",
    "no-store",
    "private",
    "private=\"Set-Cookie\"",
    "no-cache=\"Set-Cookie\"",
    "x=\"no-store, private\"",
    "x-max-age=#",
    "max-age",
    "public",
];

const REQUESTS: [&str; 10] = [
    "max-age=#",
    "max-stale=#",
    "max-stale",
    "min-fresh=#",
    "no-cache",
    "only-if-cached",
    "stale-if-error=#",
    "no-transform",
    "x=\"no-cache\"",
    "max-age=#",
];

fn answer(random: &mut Random) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut add = |name: &str, value: String| fields.push((name.to_owned(), value));
    if !random.one_in(5) {
        add("Cache-Control", random.cache_control(&ANSWERS));
    }
    if random.one_in(6) {
        add("cache-control", random.cache_control(&ANSWERS));
    }
    for (name, sides) in [("Date", 2), ("Expires", 4), ("Expires", 20), ("Last-Modified", 4)] {
        if random.one_in(sides) {
            add(name, random.date());
        }
    }
    if random.one_in(3) {
        add("Age", random.seconds());
    }
    for (name, value, sides) in [
        ("Age", "7, 9", 9),
        ("ETag", "\"a\"", 2),
        ("Set-Cookie", "a=b", 8),
        ("Vary", "*", 20),
        ("Vary", "X", 5),
        ("Pragma", "no-cache", 9),
    ] {
        if random.one_in(sides) {
            add(name, value.to_owned());
        }
    }
    fields
}

fn world(random: &mut Random) -> RandomExchange {
    let mut request = Vec::new();
    if random.one_in(6) {
        request.push(("Authorization".to_owned(), "Basic a".to_owned()));
    }
    if random.one_in(12) {
        request.push(("Cache-Control".to_owned(), "no-store".to_owned()));
    }
    const STATUSES: [u16; 18] =
        [200, 200, 200, 200, 200, 203, 204, 206, 301, 302, 304, 404, 410, 500, 503, 599, 416, 429];
    let half = |random: &mut Random, number: u32| if random.one_in(2) { number } else { 0 };
    let heuristic = random.one_in(3).then_some(Heuristic { percent: 10, ttl_max_s: 15 });
    RandomExchange {
        request,
        status: STATUSES[random.below(18) as usize],
        response: answer(random),
        delay_s: if random.one_in(3) { random.below(10) } else { 0 },
        policy: Policy {
            default_ttl_s: half(random, 5),
            while_revalidate_s: half(random, 8),
            if_error_s: half(random, 12),
            honour_request: !random.one_in(4),
            heuristic,
            ..Policy::default()
        },
    }
}

fn client(random: &mut Random) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    if random.one_in(2) {
        fields.push(("Cache-Control".to_owned(), random.cache_control(&REQUESTS)));
    }
    if random.one_in(8) {
        fields.push(("Pragma".to_owned(), "no-cache".to_owned()));
    }
    fields
}

fn headers(fields: &[(String, String)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.append(name.as_str(), value);
    }
    headers
}

fn requested(fields: &[(String, String)], policy: &Policy) -> RequestDirectives {
    match request::classify(&Method::Get, &headers(fields), false, false, policy) {
        Disposition::Lookup(requested) => requested,
        other => panic!("{other:?}"),
    }
}

fn evaluate(world: &RandomExchange) -> Option<StorableResponse> {
    let requested = requested(&world.request, &world.policy);
    let fetch = FetchContext {
        method: &Method::Get,
        request: &headers(&world.request),
        directives: &requested,
        origin: b"http://example.com",
        times: Times { requested_secs: NOW - world.delay_s, received_secs: NOW },
    };
    storage::evaluate(&fetch, world.status, &headers(&world.response), &world.policy).ok()
}

fn facts(meta: &Meta) -> super::Stored {
    super::Stored {
        lifetime_s: meta.lifetime_s.into(),
        initial_age_s: meta.initial_age_s.into(),
        while_revalidate_s: meta.while_revalidate_s.into(),
        if_error_s: meta.if_error_s.into(),
        no_cache: meta.flags.has(Flags::NO_CACHE),
        never_stale: meta.flags.has(Flags::MUST_REVALIDATE),
        immutable: meta.flags.has(Flags::IMMUTABLE),
    }
}

fn verdict(reuse: Reuse) -> OracleDecision {
    match reuse {
        Reuse::Use { refresh, .. } => OracleDecision::Use { refresh },
        Reuse::Validate { if_error, .. } => OracleDecision::Ask { if_error },
        Reuse::OnlyIfCached => OracleDecision::Refuse,
    }
}

#[test]
fn the_rules_and_the_oracle_agree() {
    let (mut stored_count, mut verdicts) = (0, [0; 5]);
    for seed in 1..=4_000u64 {
        let mut random = Random(fastrand::Rng::with_seed(seed));
        let world = world(&mut random);
        let (ours, expected) = (evaluate(&world), store(&world));
        assert_eq!(ours.as_ref().map(|ours| facts(&ours.meta)), expected, "{seed}: {world:?}");
        let (Some(ours), Some(expected)) = (ours, expected) else { continue };
        stored_count += 1;
        for _ in 0..8 {
            let later_s = random.below(90);
            let client = client(&mut random);
            let requested = requested(&client, &world.policy);
            let declared = verdict(reusing::evaluate(&ours.meta, false, &requested, NOW + later_s));
            let right = reuse(&expected, &world, &client, later_s);
            assert_eq!(declared, right, "{seed}: {client:?} {later_s} s after {world:?}");
            verdicts[match right {
                OracleDecision::Use { refresh } => usize::from(refresh),
                OracleDecision::Ask { if_error } => 2 + usize::from(if_error),
                OracleDecision::Refuse => 4,
            }] += 1;
        }
    }
    // Agreement proves something only if every outcome occurred.
    assert!(stored_count > 1000 && verdicts.iter().all(|count| *count > 100), "{verdicts:?}");
}
