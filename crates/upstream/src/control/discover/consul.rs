//! Servers from Consul's health API, by blocking queries.
//!
//! A query names the index of the last response and is answered when the index has changed, or
//! after `wait`. An index that goes backwards or is missing begins again without one, as Consul's
//! documentation demands; so does an error.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use message::Target;
use net::{Resolver, clock, timer};

use super::source_client::SourceClient;
use crate::cluster::Cluster;
use crate::discover_settings::ConsulSourceSettings;
use crate::discovered::{DiscoveredServers, read_consul};
use crate::limits::{
    CONSUL_INTERVAL, CONSUL_POLL, CONSUL_SLACK, DISCOVERY_PAUSE, DISCOVERY_PAUSE_MAX,
};
use crate::server_address::ServerProtocol;
use crate::upstream_plan::DiscoverPlan;

pub(super) async fn keep(
    cluster: &Arc<Cluster>,
    settings: &ConsulSourceSettings,
    plan: &DiscoverPlan,
    names: &Resolver,
) {
    // Consul adds up to a sixteenth to `wait`, at random.
    let timeout = settings.wait.get() + settings.wait.get() / 16 + CONSUL_SLACK;
    let client = SourceClient::new(&cluster.name, &settings.url, plan, names, timeout);
    let mut index = 0;
    let mut failures = 0;
    loop {
        let began = clock::now();
        match query(&client, settings, index, plan.settings.protocol).await {
            Ok((received, found)) => {
                cluster.discovered(found);
                (index, failures) = (next_index(index, received), 0);
                let interval = if index == 0 { CONSUL_POLL } else { CONSUL_INTERVAL };
                timer::sleep(interval.saturating_sub(clock::now().since(began))).await;
            }
            Err(why) => {
                cluster.discovery_failed(&why);
                (index, failures) = (0, failures + 1);
                timer::sleep(timer::pause(DISCOVERY_PAUSE, DISCOVERY_PAUSE_MAX, failures - 1))
                    .await;
            }
        }
    }
}

/// The index of the next query; 0 for one that does not wait.
fn next_index(last: u64, received: u64) -> u64 {
    if received < last { 0 } else { received }
}

async fn query(
    client: &SourceClient<'_>,
    settings: &ConsulSourceSettings,
    index: u64,
    protocol: ServerProtocol,
) -> Result<(u64, DiscoveredServers), String> {
    let target = target(settings, index);
    let target = Target::new(target.into()).map_err(|_| "the service has no valid name")?;
    let token = settings.token.as_ref().map(|token| ("x-consul-token", token.expose()));
    let fields: Vec<(&str, &[u8])> = token.into_iter().collect();
    let (response, content) = client.get(&target, &fields).await?;
    if response.status != 200 {
        let text = String::from_utf8_lossy(&content);
        let text = settings::quote(text.trim());
        return Err(format!("the response has the status {}: {text}", response.status));
    }
    let index = response.headers.get_str("x-consul-index").and_then(|index| index.parse().ok());
    Ok((index.unwrap_or(0), read_consul(&content, protocol)?))
}

fn target(settings: &ConsulSourceSettings, index: u64) -> String {
    let mut target = format!("/v1/health/service/{}?passing=1", escaped(&settings.service));
    for (name, value) in [("tag", &settings.tag), ("dc", &settings.datacenter)] {
        if let Some(value) = value {
            // Writing to a string does not fail.
            let _ = write!(target, "&{name}={}", escaped(value));
        }
    }
    if settings.stale {
        target.push_str("&stale");
    }
    if index > 0 {
        let wait: Duration = settings.wait.get();
        let _ = write!(target, "&index={index}&wait={}ms", wait.as_millis());
    }
    target
}

/// Percent-encoded, except unreserved characters (RFC 3986 2.3).
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            true => out.push(char::from(byte)),
            false => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use settings::{node, read};

    use super::{next_index, target};

    #[test]
    fn an_index_that_goes_backwards_begins_again() {
        for (last, received, next) in [(0, 5, 5), (5, 5, 5), (5, 9, 9), (9, 5, 0), (9, 0, 0)] {
            assert_eq!(next_index(last, received), next);
        }
    }

    #[test]
    fn a_query_names_what_is_set() {
        let settings = read(&node!({ "service": "a/b c", "stale": false })).unwrap();
        assert_eq!(target(&settings, 0), "/v1/health/service/a%2Fb%20c?passing=1");
        let more = node!({ "service": "a", "tag": "v&2", "datacenter": "dc1", "wait": "2s" });
        let all = "/v1/health/service/a?passing=1&tag=v%262&dc=dc1&stale&index=7&wait=2000ms";
        assert_eq!(target(&read(&more).unwrap(), 7), all);
    }
}
