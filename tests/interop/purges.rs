//! Purges that reach every server, through a real Redis and a real etcd: no server serves what a
//! confirmed purge covers, while servers and engines are killed, paused and restarted.

mod owners;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use crate::etcd::{Server as Etcd, etcdctl};
use crate::etcd_configuration::{self, ready};
use crate::shared_limits::Redis;
use crate::tools::has;
use scenarios::{
    Launch, Process, Tidegate, Upstream, eventually, temporary_directory, tidegate_binary,
};

/// An origin whose pages have versions.
pub(crate) struct Site {
    upstream: Upstream,
    versions: Arc<Mutex<HashMap<String, u64>>>,
}

impl Site {
    pub(crate) fn start() -> Site {
        let versions: Arc<Mutex<HashMap<String, u64>>> = Arc::default();
        let known = versions.clone();
        let upstream = Upstream::start(move |peer| {
            while !peer.at_end() {
                let head = peer.read_head();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let versions = known.lock().expect("no panic under it");
                let body = versions.get(&path).copied().unwrap_or_default().to_string();
                drop(versions);
                let response = format!(
                    "HTTP/1.1 200 OK\r\ncache-control: max-age=3600\r\n\
                     surrogate-key: all page{}\r\ncontent-length: {}\r\n\r\n{body}",
                    path.replace('/', "-"),
                    body.len()
                );
                if !peer.try_send(response) {
                    return;
                }
            }
        });
        Site { upstream, versions }
    }

    /// Changes a page; returns its version.
    pub(crate) fn change(&self, path: &str) -> u64 {
        let mut versions = self.versions.lock().expect("no panic under it");
        let version = versions.entry(path.to_owned()).or_default();
        *version += 1;
        *version
    }

    fn routes(&self) -> String {
        format!(
            r#"
upstreams: {{ origin: {{ servers: ["{}"] }} }}
routes:
  - name: site
    match: {{ path: "/{{*rest}}" }}
    filters: [{{ cache: {{ store: pages, purge: {{ allow: [127.0.0.1] }} }} }}]
    handler: {{ upstream: origin }}
"#,
            self.upstream.address()
        )
    }

    /// A server whose purges go through Redis.
    pub(crate) fn with_redis(
        &self,
        name: &str,
        redis: &str,
        purges: &str,
        disk: Option<&Path>,
    ) -> Tidegate {
        let routes = self.routes();
        let disk = disk.map_or(String::new(), |path| {
            format!(", disk: {{ path: \"{}\", size: 64MiB }}", path.display())
        });
        Tidegate::start(&format!(
            r#"
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: s3cret-token, metrics: open }}
shared: {{ redis: ["{redis}"], timeout: 2s }}
purges: {{ node: {name}, {purges} }}
caches: {{ pages: {{ memory: 4MiB{disk} }} }}
{routes}"#
        ))
    }
}

/// The version of a page that a server serves, and whether it is from its cache.
pub(crate) fn get(server: &Tidegate, path: &str) -> (u64, bool) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: shop.example\r\n\r\n");
    let response = server.exchange("web", request);
    assert_eq!(response.status, 200, "{response:?}");
    let is_hit = response.header("cache-status").is_some_and(|status| status.contains("; hit"));
    (response.text().parse().expect("a version"), is_hit)
}

/// Lets every server store a page.
pub(crate) fn fill(servers: &[Tidegate], path: &str) {
    for server in servers {
        get(server, path);
    }
}

/// Purges through the API of a server.
fn purge(server: &Tidegate, query: &str, body: &str) -> (u16, Value) {
    let request = format!(
        "POST /v1/caches/pages/purge{query} HTTP/1.1\r\nhost: admin\r\n\
         authorization: Bearer s3cret-token\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let response = server.exchange("admin", request);
    (response.status, serde_json::from_slice(&response.body).expect("JSON"))
}

pub(crate) fn purge_page(server: &Tidegate, path: &str) -> Value {
    let body = format!("{{\"url\": \"http://shop.example{path}\"}}");
    let (status, answer) = purge(server, "?wait=20", &body);
    assert_eq!(status, 200, "{answer}");
    answer
}

fn serves(server: &Tidegate) -> bool {
    server.metrics().sum("tidegate_purges_serving", &[]) == 1.0
}

pub(crate) fn all_serve(servers: &[Tidegate]) {
    for server in servers {
        eventually("the server uses its caches", || serves(server));
    }
}

/// Changes pages and purges them on one server after the other: nothing older is served by any.
/// Returns how many of the purges were confirmed.
pub(crate) fn rounds(site: &Site, servers: &[Tidegate], rounds: usize) -> usize {
    let mut confirmed = 0;
    for round in 0..rounds {
        let path = format!("/{}", round % 5);
        fill(servers, &path);
        let version = site.change(&path);
        let answer = purge_page(&servers[round % servers.len()], &path);
        if answer["confirmed"] == true {
            confirmed += 1;
            for server in servers {
                assert!(get(server, &path).0 >= version, "round {round}: {answer}");
            }
        }
    }
    confirmed
}

/// Waits until all purges of as many rounds are confirmed. A server that was away counts as away
/// again if its lease ends after it is back.
pub(crate) fn all_are_confirmed(site: &Site, servers: &[Tidegate], count: usize) {
    eventually("all purges are confirmed", || rounds(site, servers, count) == count);
}

fn three_with_redis(site: &Site, directory: &Path, purges: &str) -> Vec<Tidegate> {
    let redis = format!("unix:{}", directory.join("redis.sock").display());
    let disk = directory.join("disk");
    let servers = [("a", None), ("b", None), ("c", Some(&*disk))];
    let servers = servers.map(|(name, disk)| site.with_redis(name, &redis, purges, disk));
    all_serve(&servers);
    servers.into()
}

/// Redis that keeps its data.
fn durable(directory: &Path) -> Redis {
    let arguments = ["--port", "0", "--unixsocket", "redis.sock", "--appendonly", "yes"];
    let more = ["--appendfsync", "always"];
    Redis::start(directory, &["-s", "redis.sock"], &[&arguments[..], &more[..]].concat())
}

#[test]
fn redis_is_killed_and_paused_and_nothing_purged_is_served() {
    if !has("redis-server") {
        return;
    }
    let (site, directory) = (Site::start(), temporary_directory());
    let redis = durable(directory.path());
    let servers = three_with_redis(&site, directory.path(), "alone: 1m");
    assert_eq!(rounds(&site, &servers, 30), 30);
    let [a, b, c] = &servers[..] else { panic!("three servers") };
    // Tags and prefixes, soft and hard.
    for (body, is_soft) in [
        (r#"{"tags": ["all"]}"#, false),
        (r#"{"tags": ["page-1"], "soft": true}"#, true),
        (r#"{"prefix": "http://shop.example/"}"#, false),
        (r#"{"all": true}"#, false),
    ] {
        fill(&servers, "/1");
        let version = site.change("/1");
        let (_, answer) = purge(a, "?wait", body);
        assert!(answer["confirmed"] == true && answer["applied"].as_array().is_some(), "{answer}");
        for server in &servers {
            assert_eq!(get(server, "/1"), (version, false), "{body}, soft: {is_soft}");
        }
    }
    // The method PURGE reaches every server too.
    fill(&servers, "/4");
    let version = site.change("/4");
    let response = c.exchange("web", "PURGE /4 HTTP/1.1\r\nhost: shop.example\r\n\r\n");
    let body = response.text();
    assert!(response.status == 200 && body.contains("\"published\":true"), "{body}");
    eventually("PURGE reaches every server", || {
        servers.iter().all(|server| get(server, "/4").0 == version)
    });
    // Nothing stops without Redis. What is purged on this server, the others do not know.
    fill(&servers, "/2");
    redis.kill();
    let version = site.change("/2");
    let (status, answer) = purge(b, "", r#"{"url": "http://shop.example/2"}"#);
    assert!(status == 200 && answer["published"] == false, "{answer}");
    assert_eq!(get(b, "/2").0, version);
    assert_eq!(get(a, "/2"), (version - 1, true), "it is not known to the others");
    eventually("the server says that Redis is gone", || {
        let (status, text) = ready(c);
        status == 200 && text.contains("purges: ") && text.contains("caches are used")
    });
    let redis = durable(directory.path());
    eventually("purges are confirmed again", || {
        purge(b, "?wait", r#"{"url": "http://shop.example/2"}"#).1["confirmed"] == true
    });
    assert_eq!(get(a, "/2"), (version, false));
    all_are_confirmed(&site, &servers, 10);
    redis.process.signal("STOP");
    let (_, answer) = purge(a, "?wait=1", r#"{"url": "http://shop.example/3"}"#);
    assert!(answer["published"] == false && answer["problem"].is_string(), "{answer}");
    redis.process.signal("CONT");
    eventually("purges are confirmed again", || {
        purge(b, "?wait", r#"{"url": "http://shop.example/3"}"#).1["confirmed"] == true
    });
    all_are_confirmed(&site, &servers, 10);
    for server in &servers {
        eventually("no problem is left", || ready(server) == (200, "ready\n".to_owned()));
    }
}

#[test]
fn a_server_that_was_away_applies_what_it_has_missed_before_it_serves() {
    if !has("redis-server") {
        return;
    }
    let (site, directory) = (Site::start(), temporary_directory());
    let redis = durable(directory.path());
    let mut servers = three_with_redis(&site, directory.path(), "alone: 1m");
    // Paused: it is listed, and not waited for.
    fill(&servers, "/0");
    servers[1].signal("STOP");
    let version = site.change("/0");
    let answer = eventually_away(&servers[0], "/0", "b");
    assert_eq!(answer["confirmed"], false);
    servers[1].signal("CONT");
    eventually("the purge reaches the server that was paused", || {
        get(&servers[1], "/0").0 == version
    });
    // Killed: what it has on disk is not served before the purge is applied to it.
    keep_on_disk(&servers[2]);
    eventually("the position is on disk", || directory.path().join("disk/purges").exists());
    let killed = servers.pop().expect("the third");
    killed.signal("KILL");
    killed.wait();
    let version = site.change("/10");
    purge(&servers[0], "", r#"{"url": "http://shop.example/10"}"#);
    let path = format!("unix:{}", directory.path().join("redis.sock").display());
    let disk = directory.path().join("disk");
    let start = || site.with_redis("c", &path, "alone: 1m", Some(&disk));
    let again = start();
    // From the first request on.
    assert_eq!(get(&again, "/10").0, version);
    eventually("the rest is still there", || serves(&again) && get(&again, "/11") == (0, true));
    servers.push(again);
    all_are_confirmed(&site, &servers, 10);
    // A server without Redis uses nothing that it has on disk: it cannot know.
    let stopped = servers.pop().expect("the third");
    stopped.signal("TERM");
    assert_eq!(stopped.wait().code, Some(0));
    assert_eq!(purge_page(&servers[0], "/12")["missing"], serde_json::json!([]), "it has left");
    redis.kill();
    let alone = start();
    site.change("/11");
    assert_eq!(get(&alone, "/11"), (1, false));
    eventually("the server says why", || {
        ready(&alone).1.contains("everything is requested from the origin")
    });
    drop(alone);
}

/// Lets a server store the pages 10 to 14, also on disk.
fn keep_on_disk(server: &Tidegate) {
    let (name, cache) = ("tidegate_cache_disk_writes_total", [("cache", "pages")]);
    let before = server.metrics().sum(name, &cache);
    for page in 10..15 {
        get(server, &format!("/{page}"));
    }
    server.wait_for_metric(name, &cache, before + 5.0);
}

/// Purges a page until a server is listed as one that is away.
fn eventually_away(server: &Tidegate, path: &str, away: &str) -> Value {
    scenarios::eventually_some("the paused server is away", || {
        let answer = purge_page(server, path);
        let expected = serde_json::json!([{ "server": away, "state": "away" }]);
        (answer["missing"] == expected).then_some(answer)
    })
}

#[test]
fn a_log_that_was_lost_confirms_nothing_for_a_while() {
    if !has("redis-server") {
        return;
    }
    let (site, directory) = (Site::start(), temporary_directory());
    let redis = durable(directory.path());
    let servers = three_with_redis(&site, directory.path(), "alone: 10s, unpublished: refuse");
    fill(&servers, "/0");
    redis.ask(&["FLUSHALL"]);
    let version = site.change("/0");
    let answer = purge_page(&servers[0], "/0");
    assert_eq!(answer["confirmed"], false, "{answer}");
    assert!(answer["problem"].as_str().is_some_and(|why| why.contains("was lost")), "{answer}");
    for server in &servers {
        server.wait_for_metric("tidegate_purges_gaps_total", &[], 1.0);
        assert_eq!(get(server, "/0").0, version);
    }
    eventually("the list is whole again", || purge_page(&servers[0], "/0")["confirmed"] == true);
    // Without Redis a purge is refused as configured, and after a while caches are not used.
    fill(&servers, "/0");
    redis.kill();
    let (status, answer) = purge(&servers[0], "", r#"{"all": true}"#);
    assert!(status == 503, "{answer}");
    for server in &servers {
        eventually("the caches are not used", || !serves(server));
        assert!(!get(server, "/0").1);
    }
}

#[test]
fn two_servers_of_one_name_are_noticed() {
    if !has("redis-server") {
        return;
    }
    let (site, directory) = (Site::start(), temporary_directory());
    let _redis = Redis::on_socket(directory.path());
    let path = format!("unix:{}", directory.path().join("redis.sock").display());
    let first = site.with_redis("a", &path, "alone: 1m", None);
    all_serve(std::slice::from_ref(&first));
    let second = site.with_redis("a", &path, "alone: 1m", None);
    eventually("the name is taken", || ready(&second).1.contains("another server is called \"a\""));
    assert!(!serves(&second) && get(&second, "/0") == (0, false));
    first.signal("TERM");
    assert_eq!(first.wait().code, Some(0));
    all_serve(std::slice::from_ref(&second));
}

/// Servers whose configuration and purges are in etcd.
pub(crate) struct Fleet {
    directory: TempDir,
    etcd: Option<Etcd>,
    pub(crate) port: u16,
    peer: u16,
}

impl Fleet {
    pub(crate) fn start(site: &Site) -> Fleet {
        let directory = temporary_directory();
        let etcd = Etcd::start(directory.path(), "http", &[]);
        let (port, peer) = (etcd.port, etcd.peer);
        let fleet = Fleet { directory, etcd: Some(etcd), port, peer };
        let main = format!(
            r#"
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: s3cret-token, metrics: open }}
purges: {{ alone: 1m }}
caches: {{ pages: {{ memory: 4MiB, disk: {{ path: "${{CACHE}}", size: 64MiB }} }} }}
{}"#,
            site.routes()
        );
        fs::write(fleet.directory.path().join("main.yaml"), main).expect("a writable directory");
        fleet.ctl(&["apply", "main.yaml"]);
        fleet
    }

    fn ctl(&self, words: &[&str]) -> String {
        let mut command = std::process::Command::new(tidegate_binary());
        command.current_dir(self.directory.path()).env("CACHE", "/unused");
        let exit = Process::run(command.arg("ctl").args(words).args(["--etcd", &self.url()]));
        assert_eq!(exit.code, Some(0), "{exit:?}");
        exit.stdout
    }

    /// Waits until all servers use their caches and have reported: those that have not are listed
    /// as away, and a purge does not wait for them.
    pub(crate) fn all_serve(&self, servers: &[Tidegate]) {
        all_serve(servers);
        eventually("all servers have reported", || {
            self.ctl(&["nodes"]).matches(" serving").count() == servers.len()
        });
    }

    fn url(&self) -> String {
        etcd_configuration::Fleet::url_at(self.port)
    }

    fn cache(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}-cache"))
    }

    fn node(&self, name: &str) -> Tidegate {
        self.node_at(name, self.port)
    }

    /// A node that reaches etcd at this port.
    pub(crate) fn node_at(&self, name: &str, port: u16) -> Tidegate {
        Launch::new("")
            .command(&["up", &etcd_configuration::Fleet::url_at(port)])
            .argument(&format!("--node={name}"))
            .argument(&format!("--state-dir={}", self.directory.path().join(name).display()))
            .environment("CACHE", &self.cache(name).display().to_string())
            .start()
    }

    pub(crate) fn kill(&mut self) {
        self.etcd.take().expect("a running etcd").kill();
    }

    fn restart(&mut self) {
        let directory = self.directory.path();
        self.etcd = Some(Etcd::start_at(directory, "http", &[], self.port, self.peer));
    }

    fn signal(&self, name: &str) {
        self.etcd.as_ref().expect("a running etcd").process.signal(name);
    }
}

#[test]
fn etcd_is_killed_and_paused_and_nothing_purged_is_served() {
    if !has("etcd") || !has("etcdctl") {
        return;
    }
    let site = Site::start();
    let mut fleet = Fleet::start(&site);
    let mut servers: Vec<Tidegate> = ["a", "b", "c"].map(|name| fleet.node(name)).into();
    fleet.all_serve(&servers);
    assert_eq!(rounds(&site, &servers, 40), 40);
    // Nothing stops without etcd.
    fill(&servers, "/2");
    fleet.kill();
    let version = site.change("/2");
    let (status, answer) = purge(&servers[1], "", r#"{"url": "http://shop.example/2"}"#);
    assert!(status == 200 && answer["published"] == false, "{answer}");
    assert_eq!(get(&servers[1], "/2").0, version);
    assert_eq!(get(&servers[0], "/2"), (version - 1, true), "it is not known to the others");
    fleet.restart();
    eventually("purges are confirmed again", || {
        purge(&servers[1], "?wait", r#"{"url": "http://shop.example/2"}"#).1["confirmed"] == true
    });
    assert_eq!(get(&servers[0], "/2"), (version, false));
    fleet.signal("STOP");
    assert_eq!(get(&servers[0], "/2"), (version, true));
    fleet.signal("CONT");
    eventually("purges are confirmed after the pause", || {
        purge(&servers[1], "?wait", r#"{"url": "http://shop.example/2"}"#).1["confirmed"] == true
    });
    all_are_confirmed(&site, &servers, 10);
    // A server that was killed applies what it has missed, also if etcd has forgotten revisions.
    keep_on_disk(&servers[2]);
    eventually("the position is on disk", || fleet.cache("c").join("purges").exists());
    let killed = servers.pop().expect("the third");
    killed.signal("KILL");
    killed.wait();
    let version = site.change("/10");
    let (_, answer) = purge(&servers[0], "", r#"{"url": "http://shop.example/10"}"#);
    let endpoint = format!("http://127.0.0.1:{}", fleet.port);
    etcdctl(fleet.directory.path(), &endpoint, &["compact", &answer["number"].to_string()]);
    let again = fleet.node("c");
    assert_eq!(get(&again, "/10").0, version);
    eventually("the rest is still there", || serves(&again) && get(&again, "/11") == (0, true));
    servers.push(again);
    all_serve(&servers);
    all_are_confirmed(&site, &servers, 10);
    // A server that ends is not waited for.
    let stopped = servers.pop().expect("the third");
    stopped.signal("TERM");
    assert_eq!(stopped.wait().code, Some(0));
    let answer = purge_page(&servers[0], "/12");
    assert_eq!((&answer["confirmed"], &answer["missing"]), (&true.into(), &serde_json::json!([])));
    fleet.kill();
}
