//! Clients of TLS, HTTP, WebSocket, cluster and Redis come and go: neither their program nor the
//! one that serves them grows.

use super::{assert_flat, held, seconds, start};
use scenarios::{Authority, PATIENCE, Process, command_exists, free_port, tidegate_binary};
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/lua_soak").join(name)
}

/// A server without a password and without files, where it is installed.
fn redis(directory: &Path) -> Option<(Process, String)> {
    if !command_exists("redis-server") {
        eprintln!("the soak runs without Redis: redis-server is not installed");
        return None;
    }
    let port = free_port();
    let mut command = Command::new("redis-server");
    command.current_dir(directory).args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
    let process = Process::start(command.args(["--save", "", "--appendonly", "no"]));
    scenarios::eventually("redis accepts", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    Some((process, format!("--redis=127.0.0.1:{port}")))
}

/// Runs the clients for so many seconds; returns what they print.
fn load(arguments: &[String], seconds: u64) -> String {
    let mut command = Command::new(tidegate_binary());
    command.arg("run").arg(script("client.lua")).args(arguments);
    let process = Process::start(command.arg(format!("--seconds={seconds}")));
    let exit = process.wait_within(PATIENCE + Duration::from_secs(seconds));
    assert_eq!(exit.code, Some(0), "{exit:?}");
    exit.stdout
}

#[test]
fn clients_of_all_modules_leave_nothing_behind() {
    let seconds = seconds();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let authority = Authority::new();
    let issued = authority.issue(&["localhost"]);
    let file = |name: &str, content: &str| {
        fs::write(directory.join(name), content).expect("a writable directory");
        format!("--{name}={}", directory.join(name).display())
    };
    let mut arguments =
        vec![file("ca", &authority.pem()), file("cert", &issued.chain), file("key", &issued.key)];
    let redis = redis(directory);
    arguments.extend(redis.as_ref().map(|(_, argument)| argument.clone()));
    let (process, address) = start(&script("server.lua"), &arguments);
    for name in ["tls", "http", "cluster"] {
        let address = process.wait_for_line(|line| {
            let text = line.split_once(&format!("address of {name}: "))?.1;
            Some(text.split_whitespace().next()?.to_owned())
        });
        arguments.push(format!("--{name}={}", address.expect("an address")));
    }
    load(&arguments, (seconds / 4).clamp(2, 30));
    // The connection to Redis is open from now on.
    let before = held(&process, address, usize::MAX);
    let told = load(&arguments, seconds);
    let after = held(&process, address, before.2);
    println!("{told}{before:?} before, {after:?} after");
    assert_flat(&before, &after);
    process.signal("TERM");
    assert_eq!(process.wait().code, Some(0));
}
