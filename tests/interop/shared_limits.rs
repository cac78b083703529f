//! Limits and quotas that three servers share: through one Redis, behind Sentinels, in a Cluster.
//! It is killed, paused and restarted under load.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::etcd_configuration::{Load, ready};
use crate::tools::{command, has, run};
use scenarios::{Authority, Process, Tidegate, eventually, free_port, temporary_directory};

/// Redis, without data on disk.
pub(crate) struct Redis {
    pub(crate) process: Process,
    /// The arguments of `redis-cli`.
    cli: Vec<String>,
    directory: PathBuf,
}

impl Redis {
    pub(crate) fn start(directory: &Path, cli: &[&str], arguments: &[&str]) -> Redis {
        let mut command = command("redis-server", directory);
        command.args(["--save", "", "--appendonly", "no"]).args(arguments);
        let process = Process::start(&mut command);
        let cli = cli.iter().map(|word| (*word).to_owned()).collect();
        let redis = Redis { process, cli, directory: directory.to_owned() };
        eventually("Redis responds", || redis.ask(&["PING"]).contains("PONG"));
        redis
    }

    pub(crate) fn on_socket(directory: &Path) -> Redis {
        Redis::start(
            directory,
            &["-s", "redis.sock"],
            &["--port", "0", "--unixsocket", "redis.sock"],
        )
    }

    pub(crate) fn on_port(directory: &Path, port: u16, arguments: &[&str]) -> Redis {
        let port = port.to_string();
        let mut all = vec!["--port", &port, "--bind", "127.0.0.1"];
        all.extend(arguments);
        Redis::start(directory, &["-p", &port], &all)
    }

    pub(crate) fn ask(&self, words: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.current_dir(&self.directory).args(&self.cli).args(words);
        Process::run(&mut command).stdout
    }

    pub(crate) fn kill(self) {
        self.process.signal("KILL");
        self.process.wait();
    }
}

/// A server that shares limits; `shared` is the section.
pub(crate) fn server(state: &Path, shared: &str) -> Tidegate {
    let state = state.display();
    Tidegate::start(&format!(
        r#"
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: s3cret-token, metrics: open }}
shared: {{ {shared}, interval: 20ms, servers: 3 }}
routes:
  - match: {{ path: /rate }}
    filters:
      - rate_limit: {{ name: s, rate: 1/h, burst: 30, key: header.x-user, shared: true }}
    handler: {{ respond: {{ body: ok }} }}
  - match: {{ path: /quota }}
    filters:
      - quota: {{ name: q, limit: 20, key: header.x-user, shared: true, directory: "{state}" }}
    handler: {{ respond: {{ body: ok }} }}
  - filters:
      - rate_limit: {{ name: load, rate: 1000000/s, burst: 1000000, shared: true }}
    handler: {{ respond: {{ body: ok }} }}
"#
    ))
}

fn servers(directory: &Path, shared: &str) -> [Tidegate; 3] {
    let servers = ["a", "b", "c"].map(|name| server(&directory.join(name), shared));
    for server in &servers {
        server.wait_for_metric("tidegate_shared_limits_servers", &[], 3.0);
    }
    servers
}

fn is_allowed(server: &Tidegate, path: &str, user: &str) -> bool {
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nx-user: {user}\r\n\r\n");
    match server.exchange("web", request).status {
        200 => true,
        429 => false,
        status => panic!("status {status}"),
    }
}

/// Sends requests until so many were allowed, and some more that are not.
pub(crate) fn use_up(server: &Tidegate, path: &str, user: &str, expected: usize) {
    let (mut allowed, mut rejected) = (0, 0);
    eventually(&format!("{expected} requests of {user} are allowed"), || {
        if is_allowed(server, path, user) {
            allowed += 1;
        } else {
            rejected += 1;
            // For the report of a failure. Its metrics are not asked for: that would wake the
            // thread that settles.
            let _ = writeln!(std::io::stderr(), "{allowed} allowed, {rejected} rejected");
        }
        allowed == expected
    });
    assert!((0..5).all(|_| !is_allowed(server, path, user)), "more than {expected} of {user}");
}

/// Waits until the server knows that a quota is used up elsewhere.
pub(crate) fn is_used_up(server: &Tidegate, path: &str, user: &str) {
    eventually("the use of another server is known", || !is_allowed(server, path, user));
}

pub(crate) fn is_connected(server: &Tidegate) -> bool {
    server.metrics().sum("tidegate_shared_limits_connected", &[]) == 1.0
}

pub(crate) fn alone(server: &Tidegate) {
    alone_because(server, "");
}

fn alone_because(server: &Tidegate, why: &str) {
    eventually(&format!("the server notices that Redis is gone: {why}"), || {
        let (status, text) = ready(server);
        assert_eq!(status, 200);
        text.contains("shared limits: ") && text.contains(why) && !is_connected(server)
    });
}

pub(crate) fn together(servers: &[Tidegate]) {
    for server in servers {
        eventually("the server settles again", || {
            is_connected(server) && ready(server) == (200, "ready\n".to_owned())
        });
    }
}

#[test]
fn three_servers_share_limits_and_quotas() {
    if !has("redis-server") {
        return;
    }
    let directory = temporary_directory();
    let redis = Redis::on_socket(directory.path());
    let socket = directory.path().join("redis.sock").display().to_string();
    let shared = format!("redis: [\"unix:{socket}\"], prefix: shop");
    let [a, b, c] = servers(directory.path(), &shared);
    // One server may use all; another one begins with its share, and knows better soon.
    use_up(&a, "/rate", "ann", 30);
    let more = (0..20).filter(|_| is_allowed(&b, "/rate", "ann")).count();
    assert!(more <= 12, "{more}");
    is_used_up(&b, "/rate", "ann");
    use_up(&a, "/quota", "ann", 20);
    is_used_up(&b, "/quota", "ann");
    is_used_up(&c, "/quota", "ann");
    // The use is that of all servers, also after one was killed and has started again.
    use_up(&a, "/quota", "bob", 20);
    c.signal("KILL");
    c.wait();
    let c = server(&directory.path().join("c"), &shared);
    is_used_up(&c, "/quota", "bob");
    let keys = redis.ask(&["KEYS", "*"]);
    assert!(keys.lines().all(|key| key.starts_with("shop:")) && !keys.contains("ann"), "{keys}");
    // A reset is one for all.
    let reset = "DELETE /v1/quotas/q?key=bob HTTP/1.1\r\nhost: localhost\r\n\
                 authorization: Bearer s3cret-token\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(b.exchange("admin", reset).status, 204);
    eventually("the quota begins again", || is_allowed(&a, "/quota", "bob"));
    // Redis has lost everything: the servers have not.
    use_up(&b, "/quota", "cid", 20);
    redis.ask(&["FLUSHALL"]);
    is_used_up(&b, "/quota", "cid");
    is_used_up(&a, "/quota", "cid");
    let settled = a.metrics().sum("tidegate_shared_limits_keys_total", &[]);
    assert!(settled > 0.0);
}

#[test]
fn redis_is_killed_paused_and_restarted_under_load() {
    if !has("redis-server") {
        return;
    }
    let directory = temporary_directory();
    let redis = Redis::on_socket(directory.path());
    let socket = directory.path().join("redis.sock").display().to_string();
    let shared = format!("redis: [\"unix:{socket}\"], timeout: 200ms");
    let servers = servers(directory.path(), &shared);
    let load = Load::start(&servers);
    use_up(&servers[0], "/quota", "ann", 20);
    redis.kill();
    servers.iter().for_each(alone);
    // Without Redis a server allows its share: a third, and at least one request.
    let allowed = (0..30).filter(|_| is_allowed(&servers[1], "/rate", "dan")).count();
    assert_eq!(allowed, 10);
    let redis = Redis::on_socket(directory.path());
    together(&servers);
    let failures = servers[0].metrics().sum("tidegate_shared_limits_failures_total", &[]);
    assert!(failures > 0.0);
    // One that stands still is no different.
    redis.process.signal("STOP");
    alone(&servers[2]);
    redis.process.signal("CONT");
    together(&servers);
    use_up(&servers[2], "/quota", "eve", 20);
    is_used_up(&servers[0], "/quota", "eve");
    load.end();
}

#[test]
fn a_password_and_tls_are_used() {
    if !has("redis-server") {
        return;
    }
    let directory = temporary_directory();
    let (authority, port) = (Authority::new(), free_port().to_string());
    let issued = authority.issue(&["localhost"]);
    let write = |name: &str, text: &str| {
        fs::write(directory.path().join(name), text).expect("a writable directory");
        directory.path().join(name).display().to_string()
    };
    let ca = write("ca.pem", &authority.pem());
    let (cert, key) = (write("cert.pem", &issued.chain), write("key.pem", &issued.key));
    let tls = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key];
    let more = ["--port", "0", "--tls-auth-clients", "no", "--requirepass", "secret"];
    let cli = ["-p", &port, "--tls", "--insecure", "-a", "secret"];
    let _redis = Redis::start(directory.path(), &cli, &[&tls[..], &more[..]].concat());
    let shared = |host: &str, password: &str| {
        format!(
            "redis: [\"rediss://{host}:{port}\"], tls: {{ ca: \"{ca}\" }}, password: {password}"
        )
    };
    let good = server(&directory.path().join("a"), &shared("localhost", "secret"));
    eventually("the server is connected", || is_connected(&good));
    for (host, password, why) in [
        ("127.0.0.1", "secret", "certificate"),
        ("localhost", "wrong", "credentials were rejected"),
    ] {
        let refused = server(&directory.path().join("b"), &shared(host, password));
        alone_because(&refused, why);
        let (_, text) = ready(&refused);
        assert!(!text.contains("wrong\""), "{text}");
    }
}

#[test]
fn sentinels_name_another_primary_when_one_is_killed() {
    if !has("redis-server") {
        return;
    }
    let directory = temporary_directory();
    let within = |name: &str| {
        let path = directory.path().join(name);
        fs::create_dir(&path).expect("a writable directory");
        path
    };
    let [first, second, sentinel] = [free_port(), free_port(), free_port()];
    let primary = Redis::on_port(&within("first"), first, &[]);
    let of_first = ["--replicaof", "127.0.0.1", &first.to_string()];
    let replica = Redis::on_port(&within("second"), second, &of_first);
    eventually("the replica follows", || {
        replica.ask(&["INFO", "replication"]).contains("master_link_status:up")
    });
    // A primary that is only slow stays the primary, and the servers notice that one is gone.
    let config = format!(
        "port {sentinel}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {first} 1\n\
         sentinel down-after-milliseconds main 5000\nsentinel failover-timeout main 2000\n"
    );
    let watching = within("sentinel");
    fs::write(watching.join("sentinel.conf"), config).expect("a writable directory");
    let mut command = command("redis-server", &watching);
    let _sentinel = Process::start(command.args(["sentinel.conf", "--sentinel"]));
    eventually("the Sentinel knows the replica", || {
        let mut question = Command::new("redis-cli");
        question.args(["-p", &sentinel.to_string(), "SENTINEL", "REPLICAS", "main"]);
        Process::run(&mut question).stdout.contains(&second.to_string())
    });
    let shared =
        format!("redis: [\"redis://127.0.0.1:{sentinel}\"], sentinel: main, timeout: 500ms");
    let servers = servers(directory.path(), &shared);
    let load = Load::start(&servers);
    use_up(&servers[0], "/quota", "ann", 20);
    is_used_up(&servers[1], "/quota", "ann");
    primary.kill();
    alone(&servers[2]);
    together(&servers);
    is_used_up(&servers[2], "/quota", "ann");
    use_up(&servers[2], "/quota", "bob", 20);
    is_used_up(&servers[0], "/quota", "bob");
    load.end();
}

#[test]
fn a_cluster_has_the_keys_of_each_node() {
    if !has("redis-server") {
        return;
    }
    let directory = temporary_directory();
    let nodes = ["one", "two", "three"].map(|name| {
        let path = directory.path().join(name);
        fs::create_dir(&path).expect("a writable directory");
        let (port, bus) = (free_port(), free_port().to_string());
        let cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        let more = ["--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no"];
        (Redis::on_port(&path, port, &[&cluster[..], &more[..]].concat()), port)
    });
    let addresses = nodes.each_ref().map(|(_, port)| format!("127.0.0.1:{port}"));
    let mut create = vec!["--cluster", "create"];
    create.extend(addresses.iter().map(String::as_str));
    create.push("--cluster-yes");
    run("redis-cli", directory.path(), &create);
    for (node, _) in &nodes {
        eventually("the Cluster is formed", || {
            node.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
        });
    }
    let shared = format!("redis: [\"redis://{}\"], cluster: true, timeout: 500ms", addresses[0]);
    let servers = servers(directory.path(), &shared);
    // Which node has which key is another one in each month.
    let (mut users, mut are_spread) = (Vec::new(), false);
    while users.len() < 12 || !are_spread {
        let user = format!("user-{}", users.len());
        use_up(&servers[0], "/quota", &user, 20);
        is_used_up(&servers[1], "/quota", &user);
        users.push(user);
        are_spread = nodes.iter().all(|(node, _)| !node.ask(&["DBSIZE"]).starts_with('0'));
        assert!(users.len() < 60, "a node has no keys");
    }
    // A node that is gone has no effect on requests.
    let load = Load::start(&servers);
    let [one, two, three] = nodes;
    three.0.kill();
    for user in &users {
        is_used_up(&servers[2], "/rate", user);
    }
    load.end();
    one.0.kill();
    two.0.kill();
    alone(&servers[0]);
}
