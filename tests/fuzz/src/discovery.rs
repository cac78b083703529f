//! Responses of the sources of upstreams: whatever they are, the servers are checked and bounded.

use crate::FuzzTarget;
use settings::{Address, Host};
use upstream::{DiscoveredServers, ServerProtocol, ServerSettings};
use upstream::{read_consul, read_entry, read_list};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: responses,
    seeds: || crate::owned(&[LINES, JSON, OBJECT, CONSUL, "https://[::1]:8443", "unix:/run/a"]),
    dictionary: &[
        "10.0.0.1:80",
        "[fd00::1]:80",
        "https://",
        "h2c://",
        "unix:",
        "\"address\"",
        "\"weight\"",
        "\"backup\"",
        "\"max_connections\"",
        "{\"servers\":[",
        "\"Service\"",
        "\"Node\"",
        "\"Address\"",
        "\"Port\"",
        "\"Weights\"",
        "\"Passing\"",
        "\\u0000",
        "1e9",
        "#",
    ],
    cases: 3000,
};

const LINES: &str = "# api\n10.0.0.1:80\n[fd00::1]:80 # second\r\n\r\nb.internal:8080\n";
const JSON: &str = "[\"10.0.0.1:80\", {\"address\": \"b:80\", \"weight\": 2, \"backup\": true, \
    \"max_connections\": 9, \"max_slow_clients\": 3}]";
const OBJECT: &str = "{\"servers\": [\"http://10.0.0.1:80\"]}";
const CONSUL: &str = "[{\"Node\": {\"Address\": \"10.1.0.1\"}, \"Service\": {\"ID\": \"a\", \
    \"Address\": \"\", \"Port\": 80, \"Weights\": {\"Passing\": 7, \"Warning\": 1}}}, \
    {\"Service\": {\"ID\": \"b\", \"Address\": \"fd00::1\", \"Port\": 65536}}, 7]";

fn responses(data: &[u8]) {
    for protocol in [ServerProtocol::Http, ServerProtocol::Https, ServerProtocol::H2c] {
        if let Ok(found) = read_list(data, protocol) {
            assert!(found.rejected.is_empty());
            checked(&found, protocol);
            // What was read is read again from the addresses.
            let lines: Vec<String> =
                found.servers.iter().map(|server| server.address.to_string()).collect();
            let again = read_list(lines.join("\n").as_bytes(), protocol);
            let again = again.expect("addresses of a list are a list");
            let addresses = |found: &DiscoveredServers| -> Vec<_> {
                found.servers.iter().map(|server| server.address.clone()).collect()
            };
            assert_eq!(addresses(&again), addresses(&found));
        }
        if let Ok(found) = read_consul(data, protocol) {
            checked(&found, protocol);
        }
        if let Ok(server) = read_entry(data, protocol) {
            is_server(&server, protocol);
        }
    }
}

fn checked(found: &DiscoveredServers, protocol: ServerProtocol) {
    assert!(found.servers.len() + found.rejected.len() <= 1024);
    assert!(found.servers.is_sorted_by(|one, other| one.address < other.address));
    for server in &found.servers {
        is_server(server, protocol);
    }
}

fn is_server(server: &ServerSettings, protocol: ServerProtocol) {
    assert_eq!(server.address.protocol, protocol);
    assert!((1..=1000).contains(&server.weight));
    let Address::Tcp { host, port } = &server.address.address else {
        panic!("{} is not on the network", server.address)
    };
    assert!(*host != Host::Any && *port != 0, "{} cannot be connected to", server.address);
}
