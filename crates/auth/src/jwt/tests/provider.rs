//! Keys that a scripted provider publishes, under a clock that only the test moves.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use message::{Fault, FaultKind};
use net::{Bind, ListenOptions, Listening, Outgoing, manual_time};
use plugin::{Filter, MaybeFuture, Stage, Step};
use settings::{Named, Reader, Report, Setting};

use super::*;
use crate::identity::{IdentitySet, IdentitySettings, IdentityTasks};

/// A provider with the responses of the test; without one it does not respond.
struct Provider {
    address: SocketAddr,
    response: Rc<RefCell<String>>,
    fetches: Rc<Cell<u32>>,
}

impl Provider {
    fn start() -> Provider {
        let anywhere = Bind::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listening = Listening::bind(&anywhere, 1, &ListenOptions::default()).unwrap();
        let Bind::Tcp(address) = *listening.local() else { panic!("TCP was requested") };
        let listener = listening.into_sockets().remove(0).adopt().unwrap();
        let (response, fetches) = (Rc::new(RefCell::new(String::new())), Rc::new(Cell::new(0)));
        let (script, count) = (response.clone(), fetches.clone());
        net::task::spawn_local(async move {
            let mut open = Vec::new();
            loop {
                let stream = listener.accept().await.unwrap().stream;
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.extend_from_slice(&stream.receive().await.unwrap());
                }
                assert!(head.starts_with(b"GET /keys HTTP/1.1\r\nHost: 127.0.0.1:"), "{head:?}");
                count.set(count.get() + 1);
                let mut outgoing = Outgoing::default();
                outgoing.push(script.borrow().clone().into_bytes().into());
                stream.send_all(&mut outgoing).await.unwrap();
                open.push(stream);
            }
        });
        Provider { address, response, fetches }
    }

    fn say(&self, status: u16, fields: &str, body: &str) {
        let head = format!("HTTP/1.1 {status} X\r\n{fields}content-length: {}\r\n\r\n", body.len());
        self.response.replace(head + body);
    }

    fn publish(&self, fields: &str, keys: &[&SigningKey]) {
        let keys: Vec<&Json> = keys.iter().map(|key| &key.public).collect();
        self.say(200, fields, &json!({ "keys": keys }).to_string());
    }
}

struct SigningKey {
    id: &'static str,
    pair: EcdsaKeyPair,
    public: Json,
}

impl SigningKey {
    fn new(id: &'static str) -> SigningKey {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let (x, y) = point(pair.public_key().as_ref());
        let public = json!({ "kty": "EC", "crv": "P-256", "kid": id, "x": x, "y": y });
        SigningKey { id, pair, public }
    }

    fn token(&self) -> String {
        let exp = net::clock::wall_secs() + 40 * 24 * 3600;
        let payload = json!({ "sub": "a", "iss": "us", "aud": "shop", "exp": exp }).to_string();
        let random = SystemRandom::new();
        let sign = |data: &[u8]| self.pair.sign(&random, data).unwrap().as_ref().to_vec();
        signed(&json!({ "alg": "ES256", "kid": self.id }).to_string(), &payload, sign)
    }
}

/// A filter with the keys of a provider, and the task that fetches them.
struct Bench {
    provider: Provider,
    filter: Rc<dyn Filter>,
    tasks: IdentityTasks,
}

impl Bench {
    fn start(provider: Provider) -> Bench {
        let worker = WorkerContext::default();
        let url = format!("http://{}/keys", provider.address);
        let section = node!({ "main": { "jwks": url, "issuer": "us", "audience": "shop" } });
        let mut report = Report::new();
        let mut reader = Reader::new(&mut report);
        let named = Named::<IdentitySettings>::read(&section, &mut reader).unwrap();
        let set = IdentitySet::provide(&named, &mut reader);
        assert_eq!(set.unused().count(), 1);
        let plan = (KIND.read)(&node!({ "identity": "main" }), &mut reader).unwrap();
        assert_eq!(set.unused().count(), 0);
        assert!(report.is_empty(), "{}", report.render());
        assert_eq!(plan.describe(), "keys of main");
        let Stage::Filter(filter) = plan.build(&worker) else { panic!("not a filter") };
        let tasks = IdentityTasks::new(&worker.shared, &worker.telemetry);
        tasks.start(&set);
        // A second plan with the same provider starts nothing.
        tasks.start(&set);
        tasks.retain(&set);
        Bench { provider, filter, tasks }
    }

    async fn ask(&self, token: &str) -> Result<(), Fault> {
        let mut request = bearing(token);
        match self.filter.on_request(&mut request).resolve().await {
            Step::Continue => Ok(()),
            Step::Fail(fault) => Err(fault),
            Step::Respond(_) => panic!("responded"),
        }
    }

    /// The result of a request that does not wait.
    fn at_once(&self, token: &str) -> Result<(), FaultKind> {
        let mut request = bearing(token);
        let MaybeFuture::Ready(step) = self.filter.on_request(&mut request) else {
            panic!("waits");
        };
        match step {
            Step::Continue => Ok(()),
            Step::Fail(fault) => Err(fault.kind),
            Step::Respond(_) => panic!("responded"),
        }
    }

    fn fetches(&self) -> u32 {
        self.provider.fetches.get()
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn keys_are_fetched_once_for_all_and_rotate() {
    manual_time::block_on(async {
        let (a, b) = (SigningKey::new("a"), SigningKey::new("b"));
        let provider = Provider::start();
        provider.publish("", &[&a]);
        let bench = Bench::start(provider);
        let token = a.token();
        let (one, other) = tokio::join!(bench.ask(&token), bench.ask(&token));
        assert!(one.is_ok() && other.is_ok());
        assert_eq!(bench.fetches(), 1);
        // A key that is not known has the set fetched, but not within 30 s of the last time.
        bench.provider.publish("", &[&b]);
        assert_eq!(bench.at_once(&b.token()), Err(FaultKind::Unauthorized));
        manual_time::advance(MINUTE / 2).await;
        assert_eq!((bench.fetches(), bench.at_once(&token)), (1, Ok(())));
        let (b_token, other) = (b.token(), SigningKey::new("c").token());
        let (known, unknown) = tokio::join!(bench.ask(&b_token), bench.ask(&other));
        assert!(known.is_ok());
        assert_eq!(unknown.unwrap_err().kind, FaultKind::Unauthorized);
        assert_eq!(bench.fetches(), 2);
        // The removed key verifies nothing, also not what it verified before.
        assert_eq!(bench.at_once(&token), Err(FaultKind::Unauthorized));
        assert_eq!(bench.tasks.problems(), [""; 0]);
    });
}

#[test]
fn the_response_says_when_the_keys_are_fetched_again() {
    manual_time::block_on(async {
        let key = SigningKey::new("a");
        for (fields, minutes) in [
            ("", 15),
            ("cache-control: public, max-age=7200\r\n", 120),
            ("cache-control: max-age=0\r\n", 1),
            ("cache-control: max-age=99999999\r\n", 24 * 60),
        ] {
            let provider = Provider::start();
            provider.publish(fields, &[&key]);
            let bench = Bench::start(provider);
            bench.ask(&key.token()).await.unwrap();
            manual_time::advance(MINUTE * minutes - Duration::from_secs(1)).await;
            assert_eq!(bench.fetches(), 1, "{fields}");
            manual_time::advance(Duration::from_secs(2)).await;
            assert_eq!(bench.fetches(), 2, "{fields}");
        }
    });
}

#[test]
fn known_keys_are_used_while_the_provider_fails_until_they_are_too_old() {
    manual_time::block_on(async {
        let key = SigningKey::new("a");
        let provider = Provider::start();
        provider.publish("", &[&key]);
        let bench = Bench::start(provider);
        let token = key.token();
        bench.ask(&token).await.unwrap();
        bench.provider.say(500, "", "");
        manual_time::advance(MINUTE * 60 * 24 - Duration::from_secs(1)).await;
        assert_eq!((bench.at_once(&token), bench.at_once(&key.token())), (Ok(()), Ok(())));
        let problems = bench.tasks.problems().join("\n");
        assert!(problems.contains("status 500; keys of 86399 s ago are in use"), "{problems}");
        manual_time::advance(Duration::from_secs(2)).await;
        assert_eq!(bench.at_once(&token), Err(FaultKind::Unavailable));
        assert!(bench.tasks.problems()[0].ends_with("it has no keys"));
        bench.provider.publish("", &[&key]);
        manual_time::advance(MINUTE).await;
        assert_eq!(bench.at_once(&token), Ok(()));
    });
}

#[test]
fn a_provider_that_hangs_delays_requests_for_a_bounded_time() {
    manual_time::block_on(async {
        let key = SigningKey::new("a");
        let bench = Bench::start(Provider::start());
        let token = key.token();
        let began = net::clock::now();
        let advance = manual_time::advance(Duration::from_secs(5));
        let (asked, ()) = tokio::join!(bench.ask(&token), advance);
        let fault = asked.unwrap_err();
        assert_eq!((fault.kind, fault.status), (FaultKind::Unavailable, 503));
        assert_eq!(net::clock::now().since(began), Duration::from_secs(5));
        assert!(bench.tasks.problems()[0].contains("no whole response within 5000 ms"));
        // Until the task retries, requests do not wait.
        assert_eq!(bench.at_once(&token), Err(FaultKind::Unavailable));
        bench.provider.publish("", &[&key]);
        manual_time::advance(Duration::from_secs(1)).await;
        assert_eq!(bench.at_once(&token), Ok(()));
    });
}

#[test]
fn a_key_set_that_lies_is_not_used() {
    manual_time::block_on(async {
        let key = SigningKey::new("a");
        let token = key.token();
        let bench = Bench::start(Provider::start());
        let altered = |changes: &[(&str, Json)]| {
            let mut public = key.public.clone();
            changes.iter().for_each(|(name, value)| public[*name] = value.clone());
            json!({ "keys": [public] }).to_string()
        };
        let many: Vec<&Json> = std::iter::repeat_n(&key.public, 129).collect();
        for (status, fields, body, why) in [
            (404, "", "{}".to_owned(), "status 404"),
            (302, "location: /other\r\n", String::new(), "status 302"),
            (200, "", String::new(), "not a JSON object"),
            (200, "", "{\"keys\":[]".to_owned(), "not a JSON object"),
            (200, "", "{\"keys\":[],\"keys\":[]}".to_owned(), "not a JSON object"),
            (200, "", "{}".to_owned(), "no list `keys`"),
            (200, "", "{\"keys\":[]}".to_owned(), "no key that verifies tokens"),
            (200, "", altered(&[("kty", json!("RSA"))]), "no key that verifies tokens"),
            (200, "", altered(&[("alg", json!("ES384"))]), "no key that verifies tokens"),
            (200, "", altered(&[("alg", json!("none"))]), "no key that verifies tokens"),
            (200, "", altered(&[("use", json!("enc"))]), "no key that verifies tokens"),
            (200, "", altered(&[("key_ops", json!(["sign"]))]), "no key that verifies tokens"),
            (200, "", altered(&[("x", json!("AA"))]), "no key that verifies tokens"),
            // A secret that everyone can read is none.
            (200, "", secret_set(), "no key that verifies tokens"),
            (200, "", json!({ "keys": many }).to_string(), "too many keys"),
            (200, "", " ".repeat(512 * 1024 + 1), "more than 524288 bytes"),
        ] {
            bench.provider.say(status, fields, &body);
            manual_time::advance(MINUTE * 2).await;
            let problems = bench.tasks.problems().join("\n");
            assert!(problems.contains(why), "{problems}\nwanted {why}");
            assert_eq!(bench.at_once(&token), Err(FaultKind::Unavailable), "{why}");
        }
        // Unknown keys next to usable ones are skipped, and of two with one name each is tried.
        let wrong = SigningKey::new("a");
        let set = json!({ "keys": [{ "kty": "new" }, 7, wrong.public, key.public] });
        bench.provider.say(200, "", &set.to_string());
        manual_time::advance(MINUTE * 2).await;
        assert_eq!((bench.at_once(&token), bench.at_once(&wrong.token())), (Ok(()), Ok(())));
    });
}

fn secret_set() -> String {
    json!({ "keys": [{ "kty": "oct", "k": encode(SECRET) }] }).to_string()
}

#[test]
fn providers_are_checked() {
    settings::verify::<IdentitySettings>().unwrap();
    let with = |section: Node, filter: Node| {
        let mut report = Report::new();
        let mut reader = Reader::new(&mut report);
        let named = Named::<IdentitySettings>::read(&section, &mut reader).unwrap_or_default();
        let set: Arc<IdentitySet> = IdentitySet::provide(&named, &mut reader);
        (KIND.read)(&filter, &mut reader);
        drop(set);
        report.render()
    };
    let url = "https://id.example.com/keys";
    let main = || node!({ "main": { "jwks": url } });
    assert_eq!(with(main(), node!({ "identity": "main" })), "");
    for (section, filter, why) in [
        (main(), node!({ "identity": "mian" }), "no provider \"mian\" under identity, did you"),
        (node!({}), node!({ "identity": "main" }), "write identity: { NAME: { jwks: URL } }"),
        (main(), node!({ "identity": "main", "key_set": "x" }), "cannot read"),
        (main(), node!({}), "write identity, keys or key_set"),
        (node!({ "main": { "jwks": "ftp://a/" } }), node!({ "identity": "main" }), "expected, not"),
        (node!({ "main": { "jwks": "none.json" } }), node!({ "identity": "main" }), "cannot read"),
        (
            node!({ "main": { "jwks": "http://a/", "tls": {} } }),
            node!({ "identity": "main" }),
            "`tls` has no effect",
        ),
        (
            main(),
            node!({
                "identity": "main",
                "keys": [{ "algorithm": "HS256", "secret": "0123456789abcdef0123456789abcdef" }]
            }),
            "the keys are those of identity",
        ),
    ] {
        let report = with(section, filter);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
}
