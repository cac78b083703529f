//! TLSRoute, TCPRoute and UDPRoute: ports whose connections are passed to a service.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::backends::Backends;
use super::gateways::{GatewayListener, attached};
use super::model::{Objects, list, note_others};

/// The streams, one for each port.
pub(super) fn streams<'m>(
    objects: &Objects<'m>,
    gateways: &[GatewayListener<'m>],
    backends: &mut Backends<'_, 'm>,
    notes: &mut Vec<String>,
) -> Vec<Value> {
    let mut streams: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for route in ["TLSRoute", "TCPRoute", "UDPRoute"].into_iter().flat_map(|kind| objects.of(kind))
    {
        note_others(route.spec(), &["parentRefs", "hostnames", "rules"], &route.place, notes);
        let attached = attached(route, gateways, notes);
        let [rule, others @ ..] = list(&route.spec()["rules"]) else { continue };
        if !others.is_empty() {
            notes.push(format!("{}: only its first rule is used", route.place));
        }
        if attached.is_empty() {
            continue;
        }
        let refs = list(&rule["backendRefs"]);
        let Some(upstream) = backends.joined(route, &route.place, refs) else {
            notes.push(format!("{} is left out: it has no backend", route.place));
            continue;
        };
        for one in attached {
            for listener in &one.to {
                let stream = streams.entry(listener.listener.clone()).or_insert_with(|| {
                    let mut stream = Map::new();
                    stream.insert("name".to_owned(), json!(listener.listener));
                    stream.insert("bind".to_owned(), json!(format!(":{}", listener.port)));
                    if listener.protocol == "UDP" {
                        stream.insert("protocol".to_owned(), json!("udp"));
                    }
                    let certificate =
                        |(cert, key): &(String, String)| json!({ "cert": cert, "key": key });
                    let certificates: Vec<Value> =
                        listener.certificates.iter().map(certificate).collect();
                    if !certificates.is_empty() {
                        let tls = json!({ "certificates": certificates });
                        stream.insert("tls".to_owned(), tls);
                    }
                    stream
                });
                if listener.passes_tls {
                    let names = stream.entry("sni").or_insert_with(|| json!({}));
                    let all = ["*".to_owned()];
                    let hosts = match one.hosts.is_empty() {
                        true => &all[..],
                        false => &one.hosts,
                    };
                    for host in hosts {
                        if names.get(host).is_some() {
                            notes
                                .push(format!("{}: another route has {host} already", route.place));
                        } else {
                            names[host] = json!(upstream);
                        }
                    }
                } else if stream.contains_key("upstream") {
                    notes.push(format!(
                        "{} is left out: another route has its port already",
                        route.place
                    ));
                } else {
                    stream.insert("upstream".to_owned(), json!(upstream));
                }
            }
        }
    }
    streams.into_values().map(Value::Object).collect()
}
