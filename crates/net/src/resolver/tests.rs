//! The resolver against a small DNS server.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::SOA;
use hickory_resolver::proto::rr::{RData, Record};

use super::*;
use crate::datagram::Datagram;
use crate::worker::block_on_local;

/// Fully qualified name → TTL and addresses.
type Zone = HashMap<String, (u32, Vec<IpAddr>)>;

/// A name server on this machine with a given zone.
#[derive(Clone, Default)]
struct FakeDns {
    /// Names not listed do not exist.
    zone: Rc<RefCell<Zone>>,
    queries: Rc<Cell<usize>>,
    /// TTL of negative responses, in an SOA record; `None` omits the record.
    negative_ttl: Rc<Cell<Option<u32>>>,
}

impl FakeDns {
    fn start(&self) -> SocketAddr {
        let socket = Datagram::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let local = socket.local();
        let server = self.clone();
        crate::task::spawn_local(async move {
            while let Ok((datagram, from)) = socket.receive_from().await {
                let response = server.response(&Message::from_vec(&datagram).unwrap());
                socket.send_to(&response.to_vec().unwrap(), from).await.unwrap();
            }
        });
        local
    }

    fn set(&self, name: &str, ttl: u32, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.zone.borrow_mut().insert(name.to_owned(), (ttl, addresses));
    }

    fn response(&self, question: &Message) -> Message {
        self.queries.set(self.queries.get() + 1);
        let query = question.queries[0].clone();
        let mut response = Message::response(question.metadata.id, OpCode::Query);
        response.add_query(query.clone());
        let zone = self.zone.borrow();
        let known = zone.get(&query.name().to_string().to_lowercase());
        if let Some((ttl, addresses)) = known {
            for address in addresses {
                if RData::from(*address).record_type() == query.query_type() {
                    response.add_answer(Record::from_rdata(
                        query.name().clone(),
                        *ttl,
                        RData::from(*address),
                    ));
                }
            }
        } else {
            response.metadata.response_code = ResponseCode::NXDomain;
        }
        if let (true, Some(ttl)) = (response.answers.is_empty(), self.negative_ttl.get()) {
            let root = Name::root();
            let soa = SOA::new(root.clone(), root.clone(), 1, 1, 1, 1, ttl);
            response.add_authority(Record::from_rdata(root, ttl, RData::SOA(soa)));
        }
        response
    }
}

fn resolver(server: SocketAddr, directory: &tempfile::TempDir, limits: Limits) -> Resolver {
    let sources = Sources {
        resolv_conf: directory.path().join("resolv.conf"),
        hosts: directory.path().join("hosts"),
        settings: ResolverSettings { servers: vec![server], ..ResolverSettings::default() },
    };
    Resolver::build(sources, limits)
}

fn addresses(response: &ResolvedAddresses) -> Vec<String> {
    response.addresses.iter().map(SocketAddr::to_string).collect()
}

#[test]
fn may_be_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Resolver>();
}

#[test]
fn literals_and_localhost_need_no_name_server() {
    block_on_local(async {
        let directory = tempfile::tempdir().unwrap();
        let dns = FakeDns::default();
        let resolver = resolver(dns.start(), &directory, LIMITS);
        for (host, expected) in [
            ("192.0.2.7", "192.0.2.7:80"),
            ("2001:db8::7", "[2001:db8::7]:80"),
            ("[2001:db8::7]", "[2001:db8::7]:80"),
            ("localhost", "127.0.0.1:80"),
            ("LocalHost.", "127.0.0.1:80"),
        ] {
            let response = resolver.resolve(host, 80).await.unwrap();
            assert_eq!(addresses(&response)[0], expected, "{host}");
        }
        assert_eq!(dns.queries.get(), 0);
    });
}

#[test]
fn a_response_is_cached_for_its_ttl() {
    block_on_local(async {
        let directory = tempfile::tempdir().unwrap();
        let dns = FakeDns::default();
        dns.negative_ttl.set(Some(30)); // for AAAA
        dns.set("app.test.", 30, &["127.0.0.5", "127.0.0.4", "127.0.0.5"]);
        let resolver = resolver(dns.start(), &directory, LIMITS);
        let begin = Instant::now();
        let response = resolver.resolve("App.test", 8080).await.unwrap();
        assert_eq!(addresses(&response), ["127.0.0.5:8080", "127.0.0.4:8080"]);
        let (valid_for, ttl) = (response.valid_for, Duration::from_secs(30));
        assert!(valid_for <= ttl && valid_for + begin.elapsed() >= ttl, "{valid_for:?}");
        let asked = dns.queries.get();
        dns.set("app.test.", 30, &["127.0.0.9"]);
        assert_eq!(addresses(&resolver.resolve("app.test.", 1).await.unwrap())[0], "127.0.0.5:1");
        assert_eq!(dns.queries.get(), asked);
    });
}

#[test]
fn a_changed_name_takes_effect_after_its_ttl() {
    block_on_local(async {
        let directory = tempfile::tempdir().unwrap();
        let dns = FakeDns::default();
        let limits = Limits { ttl_min: Duration::ZERO, ..LIMITS };
        let resolver = resolver(dns.start(), &directory, limits);
        dns.set("move.test.", 0, &["127.0.0.1"]);
        let before = resolver.resolve("move.test", 80).await.unwrap();
        assert_eq!(
            (addresses(&before)[0].as_str(), before.valid_for),
            ("127.0.0.1:80", Duration::ZERO)
        );
        dns.set("move.test.", 0, &["127.0.0.2"]);
        let after = resolver.resolve("move.test", 80).await.unwrap();
        assert_eq!(addresses(&after), ["127.0.0.2:80"]);
    });
}

#[test]
fn ttls_are_bounded() {
    block_on_local(async {
        let directory = tempfile::tempdir().unwrap();
        let dns = FakeDns::default();
        dns.set("short.test.", 0, &["127.0.0.1"]);
        dns.set("long.test.", 1_000_000, &["127.0.0.1"]);
        let resolver = resolver(dns.start(), &directory, LIMITS);
        let short = resolver.resolve("short.test", 80).await.unwrap();
        assert_eq!(short.valid_for, LIMITS.ttl_min);
        let long = resolver.resolve("long.test", 80).await.unwrap();
        assert!(long.valid_for <= LIMITS.ttl_max && long.valid_for > LIMITS.ttl_max / 2);
    });
}

#[test]
fn a_negative_response_is_valid_for_a_short_time() {
    block_on_local(async {
        let directory = tempfile::tempdir().unwrap();
        let dns = FakeDns::default();
        let resolver = resolver(dns.start(), &directory, LIMITS);
        for (said, expected) in [
            (None, LIMITS.negative_default),
            (Some(7), Duration::from_secs(7)),
            (Some(900), LIMITS.negative_max),
        ] {
            dns.negative_ttl.set(said);
            let host = format!("none{}.test", said.unwrap_or_default());
            let error = resolver.resolve(&host, 80).await.unwrap_err();
            assert_eq!((&error.reason, error.valid_for), (&NoAddress::Unknown, expected));
            assert_eq!(error.to_string(), format!("cannot resolve {host}: it has no address"));
        }
        let asked = dns.queries.get();
        for host in ["", ".", "two..dots", &"x".repeat(64)] {
            let error = resolver.resolve(host, 80).await.unwrap_err();
            assert_eq!(error.reason, NoAddress::Malformed, "{host:?}");
        }
        assert_eq!(dns.queries.get(), asked);
    });
}

#[test]
fn the_search_list_and_ndots_are_respected() {
    block_on_local(async {
        let directory = tempfile::tempdir().unwrap();
        let conf = "# a comment\nsearch one.test two.test\noptions ndots:2\n";
        std::fs::write(directory.path().join("resolv.conf"), conf).unwrap();
        let dns = FakeDns::default();
        dns.set("db.two.test.", 60, &["127.0.0.2"]);
        dns.set("a.b.one.test.", 60, &["127.0.0.3"]);
        dns.set("a.b.", 60, &["127.0.0.4"]);
        let resolver = resolver(dns.start(), &directory, LIMITS);
        for (host, expected) in
            [("db", "127.0.0.2:1"), ("a.b", "127.0.0.3:1"), ("a.b.", "127.0.0.4:1")]
        {
            assert_eq!(addresses(&resolver.resolve(host, 1).await.unwrap()), [expected], "{host}");
        }
    });
}

#[test]
fn the_hosts_file_comes_first_and_is_read_again_when_it_changes() {
    block_on_local(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        std::fs::write(&path, "127.0.0.7 my_db db.internal # ours\n").unwrap();
        let dns = FakeDns::default();
        let resolver = resolver(dns.start(), &directory, LIMITS);
        for host in ["my_db", "DB.internal"] {
            let response = resolver.resolve(host, 5432).await.unwrap();
            assert_eq!(addresses(&response), ["127.0.0.7:5432"]);
            assert_eq!(response.valid_for, LIMITS.hosts);
        }
        std::fs::write(&path, "127.0.0.8 my_db\n::1 my_db\n").unwrap();
        let later = SystemTime::now() + Duration::from_secs(2);
        std::fs::File::options().append(true).open(&path).unwrap().set_modified(later).unwrap();
        let response = resolver.resolve("my_db", 5432).await.unwrap();
        assert_eq!(addresses(&response), ["127.0.0.8:5432", "[::1]:5432"]);
        assert_eq!(dns.queries.get(), 0);
    });
}

#[test]
fn a_silent_name_server_times_out() {
    block_on_local(async {
        let directory = tempfile::tempdir().unwrap();
        let silent = Datagram::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let limits = Limits { lookup: Duration::from_millis(20), ..LIMITS };
        let resolver = resolver(silent.local(), &directory, limits);
        let error = resolver.resolve("slow.test", 80).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot resolve slow.test: no name server answered within 20ms"
        );
        assert_eq!(error.valid_for, LIMITS.negative_default);
    });
}
