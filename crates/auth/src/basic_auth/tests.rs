//! `basic_auth`: its settings, its users, and what it remembers.

use std::rc::Rc;
use std::time::Duration;

use message::{Fault, Request};
use plugin::{Filter, Step, WorkerContext};
use settings::{Reader, Report, Setting, Spanned, node};
use wire::Known;

use super::{BasicAuth, BasicMethod, KIND, VERIFICATIONS_MAX};
use crate::consumers::{ConsumerSet, ConsumerSettings};
use crate::method::{AuthResult, Method as _};
use crate::password::tests::{BCRYPT, SCRYPT};
use crate::registry::Registry;
use plugin::testing::{context, errors, filter, filter_in, get, plan, rendered};

/// `ann:sesame`, `ann:wrong` and `bob:sesame`.
const RIGHT: &str = "Basic YW5uOnNlc2FtZQ==";
const WRONG: &str = "Basic YW5uOndyb25n";
const UNKNOWN: &str = "Basic Ym9iOnNlc2FtZQ==";

fn run(filter: &Rc<dyn Filter>, request: &mut Request) -> Result<(), Fault> {
    match net::worker::block_on_local(filter.on_request(request).resolve()) {
        Step::Continue => Ok(()),
        Step::Fail(fault) => Err(fault),
        Step::Respond(_) => panic!("responded"),
    }
}

fn with(authorization: &str) -> Request {
    get("/", &[("authorization", authorization)])
}

#[test]
fn the_declaration_is_valid() {
    settings::verify::<BasicAuth>().unwrap();
}

#[test]
fn a_listed_user_is_allowed_and_others_are_challenged() {
    let users = node!({ "users": [{ "consumer": "ann", "password": BCRYPT }], "realm": "shop" });
    assert_eq!(plan(&KIND, &users).unwrap().describe(), "1 user");
    let filter = filter(&KIND, &users);
    let mut request = with(RIGHT);
    run(&filter, &mut request).unwrap();
    assert_eq!(request.consumer_name(), Some("ann"));
    assert!(!request.headers.contains(Known::Authorization));
    for other in [WRONG, UNKNOWN, "Basic !", "Bearer abc", ""] {
        let mut request = with(other);
        let response = rendered(&run(&filter, &mut request).unwrap_err());
        assert_eq!(response.status, 401, "{other}");
        let challenge = response.headers.get_str(Known::WwwAuthenticate);
        assert_eq!(challenge, Some("Basic realm=\"shop\", charset=\"UTF-8\""));
        assert!(request.consumer.is_none() && !request.headers.contains(Known::Authorization));
    }
    let mut twice = get("/", &[("authorization", RIGHT), ("authorization", RIGHT)]);
    assert!(run(&filter, &mut twice).is_err());
}

#[test]
fn a_success_is_remembered_for_a_while_and_a_failure_is_not() {
    net::manual_time::block_on(async {
        let users = node!({
            "users": [{ "consumer": "ann", "password": BCRYPT }], "remember": "60s", "hide": false
        });
        let filter = filter(&KIND, &users);
        let is_ready = |authorization: &str| {
            let mut request = with(authorization);
            matches!(filter.on_request(&mut request), plugin::MaybeFuture::Ready(Step::Continue))
        };
        assert!(!is_ready(RIGHT));
        let mut request = with(RIGHT);
        let step = filter.on_request(&mut request).resolve().await;
        assert!(matches!(step, Step::Continue) && is_ready(RIGHT));
        assert_eq!(request.headers.get_str(Known::Authorization), Some(RIGHT));
        let step = filter.on_request(&mut with(WRONG)).resolve().await;
        assert!(matches!(step, Step::Fail(_)) && !is_ready(WRONG));
        net::manual_time::advance(Duration::from_secs(61)).await;
        assert!(!is_ready(RIGHT));
    });
}

#[test]
fn consumers_have_passwords() {
    let worker = WorkerContext::default();
    let registry = worker.shared.get((), Registry::default);
    let mut report = Report::new();
    let mut reader = Reader::new(&mut report);
    let entries =
        node!([{ "name": "ann", "groups": ["g"], "password": BCRYPT }, { "name": "bob" }]);
    let entries = Vec::<Spanned<ConsumerSettings>>::read(&entries, &mut reader).unwrap();
    registry.install(&std::sync::Arc::new(ConsumerSet::new(entries, &mut reader)));
    let filter = filter_in(&KIND, &node!({}), &worker);
    let mut request = with(RIGHT);
    run(&filter, &mut request).unwrap();
    assert_eq!(&*request.consumer.as_ref().unwrap().groups[0], "g");
    assert!(run(&filter, &mut with(UNKNOWN)).is_err());
    // Another password is not the remembered one.
    let other = BCRYPT.replace("ODclK", "ODclS");
    let entry = settings::read(&node!({ "name": "ann", "password": other })).unwrap();
    registry.put(entry, |_| true).unwrap();
    assert!(run(&filter, &mut with(RIGHT)).is_err());
    assert!(!registry.get("ann").unwrap().0.to_string().contains("$2y$"));
}

/// The costs of the decoys of some unknown names.
fn decoy_costs(method: &BasicMethod) -> Vec<String> {
    let names = 0..64;
    names.map(|name| method.decoy(name.to_string().as_bytes()).cost().to_owned()).collect()
}

#[test]
fn the_time_of_an_unknown_name_is_that_of_some_user_and_stays() {
    let worker = context();
    let plan = |settings| settings::read::<BasicAuth>(settings).unwrap().plan();
    let log_in = |method: &BasicMethod| {
        net::worker::block_on_local(async {
            let AuthResult::Wait(verified) = method.authenticate(&with(RIGHT)) else {
                panic!("no wait")
            };
            assert!(matches!(verified.await, AuthResult::Accepted(_)));
        });
    };
    let users = node!({ "users": [
        { "consumer": "ann", "password": BCRYPT }, { "consumer": "eve", "password": SCRYPT },
    ] });
    let listed = plan(&users).method(&worker);
    let costs = decoy_costs(&listed);
    assert!(costs.iter().any(|cost| cost == "$2y$04"));
    assert!(costs.iter().any(|cost| cost == "$scrypt$ln=4,r=1,p=1"));
    log_in(&listed);
    assert_eq!(decoy_costs(&listed), costs);
    // All workers, and the filter after a reload, have the same.
    assert_eq!(decoy_costs(&plan(&users).method(&worker)), costs);
    // Consumers come and go.
    let registry = worker.shared.get((), Registry::default);
    let consumers = plan(&node!({})).method(&worker);
    let put = |name: &str, hash: &str| {
        let entry = settings::read(&node!({ "name": name, "password": hash })).unwrap();
        registry.put(entry, |_| true).unwrap();
    };
    assert!(decoy_costs(&consumers)[0].starts_with("$argon2id$"));
    put("ann", BCRYPT);
    put("eve", SCRYPT);
    assert_eq!(decoy_costs(&consumers), costs);
    log_in(&consumers);
    assert_eq!(decoy_costs(&consumers), costs);
    registry.install(&std::sync::Arc::new(ConsumerSet::default()));
    assert_eq!(decoy_costs(&consumers), costs);
    put("ann", SCRYPT);
    assert_eq!(decoy_costs(&consumers), ["$scrypt$ln=4,r=1,p=1"; 64]);
    registry.delete("ann", |_| true).unwrap();
    registry.delete("eve", |_| true).unwrap();
    assert!(decoy_costs(&consumers)[0].starts_with("$argon2id$"));
}

#[test]
fn users_of_a_file_are_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("users");
    let name = path.to_str().unwrap();
    std::fs::write(&path, format!("# users\nann:{BCRYPT}\n\n")).unwrap();
    run(&filter(&KIND, &node!({ "htpasswd": name })), &mut with(RIGHT)).unwrap();
    for (content, why) in [
        ("ann:$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00", "htpasswd -B"),
        ("ann", "a line is NAME:HASH"),
        (":x", "a line is NAME:HASH"),
    ] {
        std::fs::write(&path, format!("bob:{BCRYPT}\n{content}\n")).unwrap();
        let report = errors(&KIND, &node!({ "htpasswd": name }));
        assert!(report.contains("line 2 of") && report.contains(why), "{report}");
    }
}

#[test]
fn a_file_without_users_allows_no_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("users");
    std::fs::write(&path, "# none\n").unwrap();
    let worker = context();
    let registry = worker.shared.get((), Registry::default);
    let entry = settings::read(&node!({ "name": "ann", "password": BCRYPT })).unwrap();
    registry.put(entry, |_| true).unwrap();
    let empty = node!({ "htpasswd": (path.to_str().unwrap()) });
    let fault = run(&filter_in(&KIND, &empty, &worker), &mut with(RIGHT)).unwrap_err();
    assert_eq!(rendered(&fault).status, 401);
    run(&filter_in(&KIND, &node!({}), &worker), &mut with(RIGHT)).unwrap();
    let noted = plan(&KIND, &empty).unwrap();
    assert_eq!(noted.describe(), "0 users");
    assert!(noted.notes()[0].contains("has no users"), "{:?}", noted.notes());
}

#[test]
fn verifications_in_flight_are_bounded() {
    let context = context();
    let users = node!({ "users": [{ "consumer": "ann", "password": BCRYPT }] });
    let filter = filter_in(&KIND, &users, &context);
    net::worker::block_on_local(async {
        let mut requests: Vec<Request> = (0..VERIFICATIONS_MAX).map(|_| with(WRONG)).collect();
        let waiting: Vec<_> =
            requests.iter_mut().map(|request| filter.on_request(request)).collect();
        let fault = match filter.on_request(&mut with(RIGHT)).resolve().await {
            Step::Fail(fault) => fault,
            _ => panic!("verified"),
        };
        let response = rendered(&fault);
        assert_eq!(
            (response.status, response.headers.get_str(Known::RetryAfter)),
            (503, Some("1"))
        );
        let failed = crate::method::rejections(&context, KIND.name, "failed");
        assert_eq!(failed.get(), 1);
        drop(waiting);
        let step = filter.on_request(&mut with(RIGHT)).resolve().await;
        assert!(matches!(step, Step::Continue));
    });
}

#[test]
fn errors_are_named_and_show_no_hash() {
    for (settings, why) in [
        (
            node!({ "users": [{ "consumer": "a", "password": "hunter2" }] }),
            "not a valid hash of argon2",
        ),
        (node!({ "users": [{ "consumer": "a:b", "password": BCRYPT }] }), "no colon"),
        (node!({ "users": [{ "consumer": "", "password": BCRYPT }] }), "needs a name"),
        (
            node!({ "users": [
                { "consumer": "a", "password": BCRYPT }, { "consumer": "a", "password": BCRYPT },
            ] }),
            "the user a is listed twice",
        ),
        (node!({ "realm": "a\"b" }), "the realm"),
        (node!({ "users": [] }), "an empty list of users"),
        (node!({ "remember": "2h" }), "remember"),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
        assert!(!report.contains("hunter2") && !report.contains("$2y$"), "{report}");
    }
}
