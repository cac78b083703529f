//! The store as `redis-cli` sees it, where that is installed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use store::{Client, Database, Reply, Request, StoreServer};

fn redis_cli(socket: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("redis-cli");
    command.arg("-s").arg(socket).args(words).stdin(Stdio::null());
    command
}

fn output_of(socket: &Path, words: &[&str]) -> String {
    let output = redis_cli(socket, words).output().expect("redis-cli starts");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn is_missing() -> bool {
    let missing = Command::new("redis-cli").arg("--version").output().is_err();
    if missing {
        eprintln!("skipped: redis-cli is not installed");
    }
    missing
}

#[test]
fn redis_cli_inspects_a_store() {
    if is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = StoreServer::start(&folder.path().join("store"), Database::private()).unwrap();
    let socket = store.path();
    for version in ["-2", "-3"] {
        let table: &[(&[&str], &str)] = &[
            (&["FLUSHALL"], "OK"),
            (&["SET", "greeting", "hello you", "EX", "100"], "OK"),
            (&["GET", "greeting"], "hello you"),
            (&["INCRBY", "visits", "3"], "3"),
            (&["MGET", "greeting", "visits", "none"], "hello you\n3"),
            (&["DEL", "greeting"], "1"),
            (&["DBSIZE"], "1"),
            (&["PUBLISH", "room", "hi"], "0"),
            (&["EVAL", "x", "0"], "ERR unknown command 'EVAL'"),
        ];
        for (words, reply) in table {
            let mut all = vec![version];
            all.extend_from_slice(words);
            assert_eq!(output_of(socket, &all), *reply, "{all:?}");
        }
        output_of(socket, &[version, "SET", "fleeting", "x", "EX", "100"]);
        let seconds: u32 = output_of(socket, &[version, "TTL", "fleeting"]).parse().unwrap();
        assert!((1..=100).contains(&seconds), "{seconds}");
        output_of(socket, &[version, "DEL", "fleeting"]);
    }
    assert!(output_of(socket, &["INFO"]).contains("keys:1"));
    assert_eq!(output_of(socket, &["--scan", "--pattern", "vis*"]), "visits");
    let client = Client::unix(socket).unwrap();
    let asked = client.start(Request::of(&[b"GET", b"visits"]));
    let reply = asked.wait(std::time::Duration::from_secs(60));
    assert_eq!(reply, Some(Ok(vec![Reply::Integer(3)])));
}

#[test]
fn redis_cli_subscribes_to_a_channel() {
    if is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = StoreServer::start(&folder.path().join("store"), Database::private()).unwrap();
    let words = ["--csv", "SUBSCRIBE", "room"];
    let mut listening =
        redis_cli(store.path(), &words).stdout(Stdio::piped()).spawn().expect("redis-cli starts");
    let mut lines = BufReader::new(listening.stdout.take().unwrap()).lines();
    let mut next = || lines.find(|line| line.as_ref().is_ok_and(|l| l.contains(','))).unwrap();
    assert!(next().unwrap().contains("\"subscribe\",\"room\",1"));
    assert_eq!(output_of(store.path(), &["PUBLISH", "room", "hi there"]), "1");
    assert!(next().unwrap().contains("\"message\",\"room\",\"hi there\""));
    listening.kill().unwrap();
    listening.wait().unwrap();
}
