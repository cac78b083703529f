//! Reads the responses of sources: lists of servers, single entries, Consul's health API.
//!
//! Promises that a server of a source is checked as strictly as one of the configuration; that it
//! has a host and a port, and the protocol that the configuration names; and that a list is
//! bounded. An error names what was found and the nearest valid word. Pure functions.

use std::net::Ipv6Addr;

use net::ServiceRecord;
use serde_json::Value as Json;
use settings::{Address, MapKey, Node, Reader, Report, Setting, Span, Value, quote};

use crate::limits::{DISCOVERED_SERVERS, DISCOVERY_BYTES, WEIGHT_MAX};
use crate::server_address::{ServerAddress, ServerProtocol};
use crate::settings::ServerSettings;

/// The servers of a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiscoveredServers {
    /// In the order of their addresses, without duplicates.
    pub servers: Vec<ServerSettings>,
    /// Entries that were left out, with the reasons: other programs wrote them.
    pub rejected: Vec<String>,
}

impl DiscoveredServers {
    /// The servers of entries with names, of which malformed ones are left out. An error if there
    /// are too many.
    pub fn of_entries(
        entries: impl IntoIterator<Item = (String, Result<ServerSettings, String>)>,
    ) -> Result<DiscoveredServers, String> {
        let mut found = DiscoveredServers::default();
        for (name, server) in entries {
            if found.servers.len() + found.rejected.len() >= DISCOVERED_SERVERS {
                return Err(format!("more than {DISCOVERED_SERVERS} servers"));
            }
            match server {
                Ok(server) => found.servers.push(server),
                Err(why) => found.rejected.push(format!("{}: {why}", quote(&name))),
            }
        }
        found.servers.sort_by(|one, other| one.address.cmp(&other.address));
        found.servers.dedup_by(|one, other| one.address == other.address);
        Ok(found)
    }
}

/// Reads the list of one author, which is rejected as a whole if it has an error: a JSON list, an
/// object with the list as `servers`, or one address a line. `#` begins a comment.
pub fn read_list(content: &[u8], protocol: ServerProtocol) -> Result<DiscoveredServers, String> {
    let text = text_of(content)?;
    let nodes = match is_json(text) {
        true => {
            match serde_json::from_str::<Json>(text)
                .map_err(|error| format!("not JSON: {error}"))?
            {
                Json::Array(list) => list.into_iter().map(node_of).collect(),
                Json::Object(mut members) => match (members.remove("servers"), members.len()) {
                    (Some(Json::Array(list)), 0) => list.into_iter().map(node_of).collect(),
                    _ => return Err("the object has one member, the list `servers`".to_owned()),
                },
                _ => Vec::new(),
            }
        }
        false => lines(text),
    };
    let mut servers = Vec::new();
    for node in &nodes {
        if servers.len() >= DISCOVERED_SERVERS {
            return Err(format!("more than {DISCOVERED_SERVERS} servers"));
        }
        servers.push(read_server(node, protocol)?);
    }
    servers.sort_by(|one, other| one.address.cmp(&other.address));
    let mut pairs = servers.windows(2);
    if let Some(twice) = pairs.find(|pair| pair[0].address == pair[1].address) {
        return Err(format!("the server {} is listed twice", twice[0].address));
    }
    Ok(DiscoveredServers { servers, rejected: Vec::new() })
}

/// Reads one server: an address, or a JSON object with `address` and more.
pub fn read_entry(content: &[u8], protocol: ServerProtocol) -> Result<ServerSettings, String> {
    let text = text_of(content)?.trim();
    let node = match text.starts_with('{') {
        true => node_of(serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?),
        false => Node::quoted(text),
    };
    read_server(&node, protocol)
}

/// Reads a response of Consul's health API, `/v1/health/service/NAME`.
pub fn read_consul(content: &[u8], protocol: ServerProtocol) -> Result<DiscoveredServers, String> {
    let entries: Vec<Json> = serde_json::from_str(text_of(content)?)
        .map_err(|error| format!("the response is not a JSON list: {error}"))?;
    let heaviest = entries.iter().map(consul_weight).max().unwrap_or(1);
    DiscoveredServers::of_entries(entries.iter().map(|entry| {
        let name = entry["Service"]["ID"].as_str().unwrap_or_default();
        let weight = scaled(consul_weight(entry), heaviest);
        (name.to_owned(), consul_server(entry, weight, protocol))
    }))
}

fn consul_weight(entry: &Json) -> u64 {
    entry["Service"]["Weights"]["Passing"].as_u64().unwrap_or(1)
}

fn consul_server(
    entry: &Json,
    weight: u64,
    protocol: ServerProtocol,
) -> Result<ServerSettings, String> {
    let service = &entry["Service"];
    let own = service["Address"].as_str().filter(|host| !host.is_empty());
    let host = own.or(entry["Node"]["Address"].as_str()).ok_or("there is no address")?;
    let port = service["Port"].as_u64().ok_or("there is no port")?;
    read_server(&server_node(host, port, weight, false), protocol)
}

/// The servers of SRV records (RFC 2782): those with the lowest priority number are used first, all
/// others are backups.
pub fn read_services(
    records: &[ServiceRecord],
    protocol: ServerProtocol,
) -> Result<DiscoveredServers, String> {
    let first = records.iter().map(|record| record.priority).min();
    let heaviest = records.iter().map(|record| u64::from(record.weight)).max().unwrap_or(1);
    // A target of "." means that the service does not exist.
    let records = records.iter().filter(|record| !record.target.is_empty());
    DiscoveredServers::of_entries(records.map(|record| {
        let weight = scaled(u64::from(record.weight), heaviest);
        let is_backup = Some(record.priority) != first;
        let node = server_node(&record.target, u64::from(record.port), weight, is_backup);
        (record.target.clone(), read_server(&node, protocol))
    }))
}

/// A weight in its proportion to the heaviest one, which may be above the highest one here.
fn scaled(weight: u64, heaviest: u64) -> u64 {
    if heaviest <= u64::from(WEIGHT_MAX) {
        return weight;
    }
    // The weights of Consul have no bound.
    (u128::from(weight) * u128::from(WEIGHT_MAX) / u128::from(heaviest)) as u64
}

/// The servers at these addresses.
pub(crate) fn of_addresses(
    addresses: impl IntoIterator<Item = std::net::SocketAddr>,
    protocol: ServerProtocol,
) -> Result<DiscoveredServers, String> {
    DiscoveredServers::of_entries(addresses.into_iter().map(|address| {
        let text = address.to_string();
        (text.clone(), read_server(&Node::quoted(text), protocol))
    }))
}

fn text_of(content: &[u8]) -> Result<&str, String> {
    if content.len() > DISCOVERY_BYTES {
        return Err(format!("more than {DISCOVERY_BYTES} bytes"));
    }
    str::from_utf8(content).map_err(|error| format!("no UTF-8 at byte {}", error.valid_up_to()))
}

/// True for a JSON object or list, but not for a line with an IPv6 address: `[::1]:80`.
fn is_json(text: &str) -> bool {
    let text = text.trim_start();
    let items = text.strip_prefix('[').map(str::trim_start);
    text.starts_with('{') || items.is_some_and(|items| items.starts_with(['"', '{', ']']))
}

fn lines(text: &str) -> Vec<Node> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(Node::quoted).collect()
}

fn server_node(host: &str, port: u64, weight: u64, is_backup: bool) -> Node {
    let is_v6 = host.parse::<Ipv6Addr>().is_ok();
    let address = if is_v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let entry = |name: &str, node| (MapKey { name: name.to_owned(), span: Span::NOWHERE }, node);
    Node::made(Value::Map(vec![
        entry("address", Node::quoted(address)),
        entry("weight", Node::plain(weight.clamp(1, u64::from(WEIGHT_MAX)).to_string())),
        entry("backup", Node::plain(is_backup.to_string())),
    ]))
}

fn node_of(json: Json) -> Node {
    match json {
        Json::Null => Node::made(Value::Null),
        Json::Bool(value) => Node::plain(value.to_string()),
        Json::Number(number) => Node::plain(number.to_string()),
        Json::String(text) => Node::quoted(text),
        Json::Array(items) => Node::made(Value::List(items.into_iter().map(node_of).collect())),
        Json::Object(members) => Node::made(Value::Map(
            members
                .into_iter()
                .map(|(name, value)| (MapKey { name, span: Span::NOWHERE }, node_of(value)))
                .collect(),
        )),
    }
}

fn read_server(node: &Node, protocol: ServerProtocol) -> Result<ServerSettings, String> {
    let mut report = Report::new();
    let server = ServerSettings::read(node, &mut Reader::new(&mut report));
    let Some(mut server) = server.filter(|_| report.is_empty()) else {
        let first = report.one_line_each().into_iter().next();
        return Err(first.unwrap_or_else(|| "not a server".to_owned()));
    };
    let written = node.get("address").unwrap_or(node).text().unwrap_or_default();
    let ServerAddress { protocol: own, address } = &mut server.address;
    if matches!(address, Address::Unix(_)) {
        return Err(format!("{}: a source names a host and a port", quote(written)));
    }
    match written.contains("://") {
        false => *own = protocol,
        true if *own == protocol => {}
        true => {
            let why = "the protocol is another one than `discover.protocol`";
            return Err(format!("{}: {why}", quote(written)));
        }
    }
    if !server.address.is_connectable() {
        return Err(format!("{} is not an address to connect to", quote(written)));
    }
    Ok(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HTTP: ServerProtocol = ServerProtocol::Http;

    fn shown(found: &DiscoveredServers) -> Vec<String> {
        let show = |server: &ServerSettings| {
            let backup = if server.backup { " backup" } else { "" };
            format!("{} {}{backup}", server.address, server.weight)
        };
        found.servers.iter().map(show).collect()
    }

    #[test]
    fn a_list_has_lines_or_json() {
        for text in [
            "[\"10.0.0.2:80\", { \"address\": \"10.0.0.1:80\", \"weight\": 3, \"backup\": true }]",
            "{\"servers\": [\"http://10.0.0.2\", {\"address\":\"10.0.0.1:80\",\"weight\":3,\
             \"backup\":true}]}",
        ] {
            let found = read_list(text.as_bytes(), HTTP).unwrap();
            assert_eq!(shown(&found), ["10.0.0.1:80 3 backup", "10.0.0.2:80 1"]);
        }
        assert_eq!(shown(&read_list(b"[::1]:80", HTTP).unwrap()), ["[::1]:80 1"]);
        let text = b"# servers\n\n [::1]:80 # local\r\nb.internal:80\n";
        assert_eq!(shown(&read_list(text, HTTP).unwrap()), ["[::1]:80 1", "b.internal:80 1"]);
        assert_eq!(read_list(b" []", HTTP), Ok(DiscoveredServers::default()));
        assert_eq!(read_list(b"", HTTP), Ok(DiscoveredServers::default()));
        let https = read_list(b"a:443\nhttps://b", ServerProtocol::Https).unwrap();
        assert_eq!(shown(&https), ["https://a 1", "https://b 1"]);
    }

    #[test]
    fn hostile_lists_are_rejected_by_name() {
        let many: String =
            (0..=DISCOVERED_SERVERS).map(|n| format!("10.0.0.1:{}\n", n + 1)).collect();
        let deep = format!("[\"a:1\",{}", "[".repeat(100_000));
        for (text, why) in [
            ("10.0.0.1", "\"10.0.0.1\" has no port: write 10.0.0.1:80"),
            ("10.0.0.300:80", "no valid host name"),
            ("unix:/run/docker.sock", "a source names a host and a port"),
            ("h2c://unix:/run/docker.sock", "a source names a host and a port"),
            (":80", "is not an address to connect to"),
            ("a:0", "is not an address to connect to"),
            ("https://a", "another one than `discover.protocol`"),
            ("a:80\na:80", "the server a:80 is listed twice"),
            ("[5]", "has no port"),
            ("[[]]", "has no port"),
            ("[\"a:1\", []]", "address"),
            ("[\"a:1\", null]", "key \"address\" is missing"),
            ("[{}]", "key \"address\" is missing"),
            ("[{\"adress\":\"a:80\"}]", "did you mean \"address\"?"),
            ("[{\"address\":\"a:80\",\"weight\":0}]", "between 1 and 1000"),
            ("[{\"address\":\"a:80\",\"weight\":1e300}]", "1e"),
            ("{\"a\": []}", "the list `servers`"),
            ("{\"servers\": [], \"a\": 1}", "the list `servers`"),
            ("[\"a:1\"", "not JSON"),
            (deep.as_str(), "not JSON"),
            (many.as_str(), "more than 1024 servers"),
        ] {
            let out = read_list(text.as_bytes(), HTTP).unwrap_err();
            assert!(out.contains(why), "{out}\nwanted {why}");
        }
        assert!(read_list(b"\xff", HTTP).unwrap_err().contains("no UTF-8 at byte 0"));
        assert!(read_list(&vec![b'#'; DISCOVERY_BYTES + 1], HTTP).is_err());
    }

    #[test]
    fn an_entry_is_an_address_or_an_object() {
        let server = read_entry(b" 10.0.0.1:80\n", HTTP).unwrap();
        assert_eq!(server.address.to_string(), "10.0.0.1:80");
        let server =
            read_entry(br#"{"address": "h2c://a", "max_connections": 7}"#, ServerProtocol::H2c);
        assert_eq!(server.unwrap().max_connections, Some(7));
        assert!(read_entry(b"", HTTP).is_err());
        assert!(read_entry(b"a:80\nb:80", HTTP).is_err());
    }

    #[test]
    fn consul_instances_have_their_own_address_or_that_of_their_node() {
        let text = br#"[
            {"Node": {"Address": "10.1.0.1"}, "Service": {"ID": "a", "Address": "", "Port": 80}},
            {"Node": {"Address": "x"}, "Service": {"ID": "b", "Address": "fd00::1", "Port": 80,
                "Weights": {"Passing": 5000}}},
            {"Node": {"Address": "10.1.0.3"}, "Service": {"ID": "c", "Port": 0}},
            {"Service": {"ID": "d", "Port": 80}}, 7
        ]"#;
        let found = read_consul(text, HTTP).unwrap();
        assert_eq!(shown(&found), ["10.1.0.1:80 1", "[fd00::1]:80 1000"]);
        let [c, d, last] = found.rejected.as_slice() else { panic!("{:?}", found.rejected) };
        assert!(c.starts_with("\"c\": ") && d == "\"d\": there is no address", "{c} {d}");
        assert!(last.starts_with("\"\": "), "{last}");
        assert_eq!(read_consul(b"[]", HTTP), Ok(DiscoveredServers::default()));
        for text in ["{}", "", "[", "7"] {
            assert!(read_consul(text.as_bytes(), HTTP).unwrap_err().contains("not a JSON list"));
        }
        let instance = |port: u16, weight: u64| {
            format!(
                r#"{{"Service": {{"Address": "a", "Port": {port},
                    "Weights": {{"Passing": {weight}}}}}}}"#
            )
        };
        for (weights, expected) in [
            ((1000, 200), ["a:1 1000", "a:2 200"]),
            ((5000, 1000), ["a:1 1000", "a:2 200"]),
            ((5000, 0), ["a:1 1000", "a:2 1"]),
            ((u64::MAX, u64::MAX / 2), ["a:1 1000", "a:2 499"]),
        ] {
            let text = format!("[{},{}]", instance(1, weights.0), instance(2, weights.1));
            assert_eq!(shown(&read_consul(text.as_bytes(), HTTP).unwrap()), expected);
        }
        let many = format!("[1{}]", ",1".repeat(DISCOVERED_SERVERS));
        assert_eq!(read_consul(many.as_bytes(), HTTP), Err("more than 1024 servers".to_owned()));
    }

    #[test]
    fn services_have_priorities_and_weights() {
        let record = |target: &str, priority, weight| ServiceRecord {
            priority,
            weight,
            port: 80,
            target: target.to_owned(),
        };
        let records = [record("a", 1, 0), record("b", 1, 20_000), record("c", 2, 10_000)];
        let found = read_services(&records, HTTP).unwrap();
        assert_eq!(shown(&found), ["a:80 1", "b:80 1000", "c:80 500 backup"]);
        assert_eq!(read_services(&[record("", 0, 0)], HTTP), Ok(DiscoveredServers::default()));
        let found = read_services(&[record("a b", 0, 0)], HTTP).unwrap();
        assert!(found.servers.is_empty() && found.rejected[0].contains("host name"), "{found:?}");
    }
}
