//! Active health checks of a stream's servers.

use std::net::IpAddr;

use super::*;

/// Sends its name to every client: `python3 -c NAMED ADDRESS PORT NAME`.
const NAMED: &str = r#"
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("port", server.getsockname()[1], file=sys.stderr, flush=True)
while True:
    client, _ = server.accept()
    try:
        client.sendall(sys.argv[3].encode())
    except OSError:
        pass
    client.close()
"#;

/// Starts a server at an address of its own, so that its port stays free while it is down.
fn named(name: &str, address: IpAddr, port: u16) -> (Process, SocketAddr) {
    let mut command = Command::new("python3");
    let process =
        Process::start(command.args(["-c", NAMED, &address.to_string(), &port.to_string(), name]));
    let port = process.wait_for_line(|line| line.strip_prefix("port ")?.parse().ok());
    let port = port.unwrap_or_else(|| panic!("{:?}", process.log()));
    (process, SocketAddr::new(address, port))
}

#[test]
fn health_checks_take_a_server_out_and_bring_it_back() {
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    let address = IpAddr::from([127, 77, high, low]);
    let (first, one) = named("one", address, 0);
    let (second, two) = named("two", address, 0);
    // Neither another attempt nor an ejection hides a server that is down.
    let health = "balance: round_robin, retries: { attempts: 1 }, ejection: { failures: 0 }, \
                  health: { interval: 100ms, timeout: 1m, unhealthy_after: 2 }, timeouts:";
    let config = config(&format!("\"{one}\", \"{two}\""), "").replace("timeouts:", health);
    // Each worker takes turns by itself.
    let server = Tidegate::start(&format!("workers: 1\n{config}"));
    let become_healthy = |expected: [(SocketAddr, f64); 2]| {
        eventually(&format!("the health of the servers is {expected:?}"), || {
            let metrics = server.metrics();
            expected.iter().all(|(address, health)| {
                let labels = [("server", &*address.to_string())];
                metrics.sum("tidegate_upstream_server_healthy", &labels) == *health
            })
        });
    };
    let names = || {
        let said = (0..8).map(|_| server.connect("raw").read_to_end());
        said.map(|said| String::from_utf8(said).expect("a name")).collect::<Vec<_>>()
    };
    let count = |name: &str| names().iter().filter(|said| **said == name).count();
    become_healthy([(one, 1.0), (two, 1.0)]);
    assert_eq!(count("one"), 4);
    drop(first);
    become_healthy([(one, 0.0), (two, 1.0)]);
    server.wait_for_log("a server is unhealthy");
    assert_eq!(count("two"), 8);
    let (again, _) = named("one", address, one.port());
    become_healthy([(one, 1.0), (two, 1.0)]);
    assert_eq!(count("one"), 4);
    drop((again, second));
    become_healthy([(one, 0.0), (two, 0.0)]);
    server.connect("raw").expect_reset();
    closed(&server, "stream_unconnected");
}
