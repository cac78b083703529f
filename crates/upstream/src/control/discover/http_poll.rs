//! Servers from a URL that is requested at intervals.

use std::sync::Arc;

use net::{Resolver, timer};
use wire::Known;

use super::source_client::SourceClient;
use crate::cluster::Cluster;
use crate::control::jittered;
use crate::discover_settings::HttpSourceSettings;
use crate::discovered::{DiscoveredServers, read_list};
use crate::limits::{DISCOVERY_PAUSE, DISCOVERY_PAUSE_MAX};
use crate::server_address::ServerProtocol;
use crate::upstream_plan::DiscoverPlan;

pub(super) async fn keep(
    cluster: &Arc<Cluster>,
    settings: &HttpSourceSettings,
    plan: &DiscoverPlan,
    names: &Resolver,
) {
    let timeout = settings.timeout.get();
    let client = SourceClient::new(&cluster.name, &settings.url, plan, names, timeout);
    let mut fields: Vec<(&str, Vec<u8>)> = Vec::new();
    if let Some(token) = &settings.token {
        fields.push(("authorization", [b"Bearer ", token.expose()].concat()));
    }
    let mut tag: Option<Vec<u8>> = None;
    let mut failures = 0;
    let mut seed = crate::ring::hash(cluster.name.as_bytes());
    loop {
        match poll(&client, settings, &fields, tag.as_deref(), plan.settings.protocol).await {
            Ok(Polled::New(found, new_tag)) => {
                cluster.discovered(found);
                (tag, failures) = (new_tag, 0);
            }
            Ok(Polled::Same) => {
                cluster.discovery_confirmed();
                failures = 0;
            }
            Err(why) => {
                cluster.discovery_failed(&why);
                failures += 1;
            }
        }
        seed = crate::ring::mix(seed);
        let interval = settings.interval.get();
        timer::sleep(match failures {
            0 => jittered(interval, seed),
            _ => timer::pause(DISCOVERY_PAUSE, DISCOVERY_PAUSE_MAX, failures - 1).min(interval),
        })
        .await;
    }
}

enum Polled {
    /// The servers, and the entity tag of the response.
    New(DiscoveredServers, Option<Vec<u8>>),
    Same,
}

async fn poll(
    client: &SourceClient<'_>,
    settings: &HttpSourceSettings,
    fields: &[(&str, Vec<u8>)],
    tag: Option<&[u8]>,
    protocol: ServerProtocol,
) -> Result<Polled, String> {
    let mut fields: Vec<(&str, &[u8])> =
        fields.iter().map(|(name, value)| (*name, value.as_slice())).collect();
    fields.push(("accept", b"application/json, text/plain"));
    fields.extend(tag.map(|tag| ("if-none-match", tag)));
    let (response, content) = client.get(&settings.url.target, &fields).await?;
    match response.status {
        200 => {
            let tag = response.headers.get(Known::Etag).map(<[u8]>::to_vec);
            Ok(Polled::New(read_list(&content, protocol)?, tag))
        }
        304 if tag.is_some() => Ok(Polled::Same),
        status => Err(format!("the response has the status {status}")),
    }
}
