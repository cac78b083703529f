//! Sends random requests and responses through the whole filter and compares the results with what
//! RFC 9111 allows. The expectation is computed slowly and plainly from the text of the RFC alone.
//! Time passes by Age, in steps that are larger than the delays of a slow run.

use cache::store::Purge;
use net::worker::block_on_local;
use wire::Method;

use crate::site::{Call, Site, begin, request, response_with};

const WORLDS: u64 = 120;
const STEPS: usize = 60;

/// A random generator with the same sequence in every run.
struct Random(fastrand::Rng);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0.usize(..most)
    }

    fn of(&mut self, choices: &[&'static str]) -> &'static str {
        choices[self.below(choices.len())]
    }

    /// Returns any number of these choices.
    fn some(&mut self, choices: &[&'static str]) -> Vec<&'static str> {
        (0..self.below(3)).map(|_| self.of(choices)).collect()
    }
}

/// Ages and lifetimes are far from each other.
const AGES: [&str; 4] = ["0", "200", "400", "800"];
const SAID: [&str; 14] = [
    "max-age=300",
    "max-age=600",
    "max-age=0",
    "s-maxage=600",
    "s-maxage=100",
    "no-store",
    "private",
    "no-cache",
    "public",
    "must-revalidate",
    "immutable",
    "stale-while-revalidate=1000",
    "stale-if-error=1000",
    "max-age=900",
];
const ASKED: [&str; 8] = [
    "no-cache",
    "no-store",
    "max-age=100",
    "max-age=500",
    "min-fresh=100",
    "max-stale",
    "max-stale=300",
    "only-if-cached",
];

/// A response of the origin, and the request it was for.
#[derive(Debug)]
struct OriginResponse {
    path: &'static str,
    status: u16,
    control: Vec<&'static str>,
    age_s: u64,
    vary: &'static str,
    cookie: bool,
    /// The field `X` of the request.
    x: String,
    authorized: bool,
    no_store: bool,
    purged: bool,
}

impl OriginResponse {
    /// True if the origin may confirm this response for a call: its current response would be the
    /// same.
    fn is_derived_from(&self, call: &Call) -> bool {
        self.path == call.target && self.x == call.field("x").unwrap_or_default()
    }
}

/// A request of a client.
#[derive(Debug)]
struct Wanted {
    path: &'static str,
    x: &'static str,
    authorized: bool,
    control: Vec<&'static str>,
    more: &'static str,
}

fn number(declared: &[&str], name: &str) -> Option<u64> {
    let found = declared.iter().find_map(|one| one.strip_prefix(name)?.strip_prefix('='));
    found.map(|text| text.parse().unwrap())
}

/// True if RFC 9111 allows this stored response without a request to the origin.
fn is_allowed(declared: &OriginResponse, wanted: &Wanted) -> bool {
    let says = |name: &str| declared.control.contains(&name);
    let wants = |name: &str| wanted.control.contains(&name);
    // 3, 3.1, 3.5: the response may be stored.
    let shared = says("public") || says("must-revalidate");
    let shared = shared || number(&declared.control, "s-maxage").is_some();
    if says("no-store") || says("private") || declared.no_store || declared.cookie {
        return false;
    }
    if declared.authorized && !shared {
        return false;
    }
    // 4, 4.1, 4.4: it belongs to this request.
    if declared.path != wanted.path || declared.purged || declared.vary == "*" {
        return false;
    }
    if declared.vary == "x" && declared.x != wanted.x {
        return false;
    }
    // 4, 5.2.1.4, 5.2.2.4: it needs no revalidation.
    if says("no-cache") || wants("no-cache") {
        return false;
    }
    // 4.2.1, and the maximum that the configuration sets for a status: five minutes.
    let control = &declared.control;
    let lifetime = number(control, "s-maxage").or_else(|| number(control, "max-age"));
    let lifetime_s = lifetime.unwrap_or(0).min(if declared.status == 404 { 300 } else { u64::MAX });
    let (age_s, immutable) = (declared.age_s, says("immutable"));
    let fresh = lifetime_s > age_s;
    let most_s = number(&wanted.control, "max-age").unwrap_or(u64::MAX);
    let least_s = number(&wanted.control, "min-fresh").unwrap_or(0);
    if fresh {
        return (age_s <= most_s || immutable) && age_s + least_s <= lifetime_s;
    }
    // 4.2.4, 5.2.1.2, RFC 5861 3.
    let never = says("must-revalidate") || number(control, "s-maxage").is_some();
    let stale_s = age_s - lifetime_s;
    let wished = wants("max-stale") || number(&wanted.control, "max-stale") >= Some(stale_s);
    let window_s = number(control, "stale-while-revalidate").unwrap_or(0);
    !never && age_s <= most_s && least_s == 0 && (wished || stale_s < window_s)
}

struct World {
    random: Random,
    declared: Vec<OriginResponse>,
    hits: usize,
}

impl World {
    /// Sends the origin's response and returns its number.
    fn reply(&mut self, call: Call) -> usize {
        let known = call.field("if-none-match").map(|tag| tag.trim_matches('"').to_owned());
        if let Some(number) = known.and_then(|tag| tag.parse::<usize>().ok())
            && self.declared.get(number).is_some_and(|declared| declared.is_derived_from(&call))
            && self.random.below(2) == 0
        {
            // RFC 9111 4.3.4: its age begins again.
            self.declared[number].age_s = 0;
            call.respond(response_with(
                304,
                &[("etag", &format!("\"{number}\"")), ("age", "0")],
                "",
            ));
            return number;
        }
        let random = &mut self.random;
        let control = [vec![random.of(&SAID)], random.some(&SAID)].concat();
        let (age, number) = (random.of(&AGES), self.declared.len());
        let declared = OriginResponse {
            path: if call.target == "/a" { "/a" } else { "/b" },
            status: [200, 200, 200, 404][random.below(4)],
            age_s: age.parse().unwrap(),
            vary: random.of(&["", "x", "x", "*", ""]),
            cookie: random.below(8) == 0,
            x: call.field("x").unwrap_or_default().to_owned(),
            authorized: call.field("authorization").is_some(),
            no_store: call
                .field("cache-control")
                .is_some_and(|declared| declared.contains("no-store")),
            purged: false,
            control,
        };
        let (tag, control) = (format!("\"{number}\""), declared.control.join(", "));
        let mut fields = vec![("etag", &*tag), ("cache-control", &*control), ("age", age)];
        fields.extend((!declared.vary.is_empty()).then_some(("vary", declared.vary)));
        fields.extend(declared.cookie.then_some(("set-cookie", "a=b")));
        let reply = response_with(declared.status, &fields, "0123456789");
        call.respond(reply);
        self.declared.push(declared);
        number
    }

    fn wanted(&mut self) -> Wanted {
        let random = &mut self.random;
        Wanted {
            path: random.of(&["/a", "/b"]),
            x: random.of(&["1", "2"]),
            authorized: random.below(6) == 0,
            control: random.some(&ASKED),
            more: random.of(&["", "", "", "range", "if-none-match"]),
        }
    }

    fn purge(&mut self, path: &str) {
        self.declared
            .iter_mut()
            .filter(|declared| declared.path == path)
            .for_each(|declared| declared.purged = true);
    }
}

async fn run(seed: u64) -> usize {
    let (site, mut origin) = Site::plain();
    let routes = [site.worker(0), site.worker(1)];
    let random = Random(fastrand::Rng::with_seed(seed));
    let mut world = World { random, declared: Vec::new(), hits: 0 };
    for step in 0..STEPS {
        let wanted = world.wanted();
        let kind = world.random.below(16);
        if kind == 0 {
            let url = format!("http://a{}", wanted.path);
            site.cache().store().purge(&Purge::Url(url.as_bytes()), false);
            world.purge(wanted.path);
            continue;
        }
        let control = wanted.control.join(", ");
        let tag = format!("\"{}\"", world.declared.len().saturating_sub(1));
        let mut fields = vec![("x", wanted.x)];
        fields.extend(wanted.authorized.then_some(("authorization", "Basic a")));
        fields.extend((!control.is_empty()).then_some(("cache-control", &*control)));
        match wanted.more {
            "range" => fields.push(("range", "bytes=2-4")),
            "if-none-match" => fields.push(("if-none-match", &tag)),
            _ => {}
        }
        let method = [Method::Get, Method::Get, Method::Head][kind % 3].clone();
        let route = &routes[world.random.below(2)];
        let mut client = begin(route, request(method, wanted.path, &fields)).await;
        let (mut answered, mut got) = (None, None);
        while got.is_none() {
            tokio::select! {
                biased;
                done = &mut client => got = Some(done.unwrap()),
                call = origin.next_call() => answered = Some(world.reply(call)),
            }
        }
        let Some(Ok(got)) = got else { continue };
        let number: usize = got.field("etag").trim_matches('"').parse().unwrap();
        let status = got.status;
        let text = got.text().await.unwrap();
        let wrong = format!("seed {seed}, step {step}: {wanted:?} got {status} of {number}");
        let declared = &world.declared[number];
        assert!(["", "0123456789", "234"].contains(&&*text), "{wrong}: {text}");
        assert_eq!(declared.path, wanted.path, "{wrong}");
        if answered != Some(number) {
            assert!(is_allowed(declared, &wanted), "{wrong}: {declared:?}");
            world.hits += 1;
        }
        // Lets refreshes in the background run.
        tokio::task::yield_now().await;
        while let Some(call) = origin.asked_already() {
            world.reply(call);
            tokio::task::yield_now().await;
        }
    }
    world.hits
}

#[test]
fn nothing_is_given_that_is_not_allowed() {
    let hits = block_on_local(async {
        let mut hits = 0;
        for seed in 1..=WORLDS {
            hits += run(seed).await;
        }
        hits
    });
    assert!(hits > 500, "only {hits} hits: it says little");
}
