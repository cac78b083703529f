//! Servers from the keys under a prefix of etcd. Keys with leases vanish with the leases.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use etcd::messages::{RangeRequest, WatchCreateRequest, WatchResponse, prefix_end};
use etcd::{Credentials, Etcd, EtcdError, EtcdSettings, Watch, WatchError};
use net::{Resolver, timer};
use plugin::WorkerContext;

use crate::cluster::Cluster;
use crate::discover_settings::EtcdSourceSettings;
use crate::discovered::{DiscoveredServers, read_entry};
use crate::limits::{DISCOVERED_SERVERS, DISCOVERY_BYTES, DISCOVERY_PAUSE, DISCOVERY_PAUSE_MAX};
use crate::server_address::ServerProtocol;
use crate::settings::ServerSettings;
use crate::upstream_plan::DiscoverPlan;

pub(super) async fn keep(
    cluster: &Arc<Cluster>,
    settings: &EtcdSourceSettings,
    plan: &DiscoverPlan,
) {
    let endpoints = settings.endpoints.iter().map(|member| member.0.clone()).collect();
    let credentials = settings.user.clone().zip(settings.password.as_ref());
    let client = EtcdSettings {
        tls: plan.tls.clone(),
        server_name: plan.server_name.clone(),
        credentials: credentials.map(|(user, password)| Credentials {
            user,
            password: String::from_utf8_lossy(password.expose()).into_owned(),
        }),
        message_bytes: DISCOVERY_BYTES,
        ..EtcdSettings::new(endpoints)
    };
    let names = Rc::new(Resolver::system());
    let etcd = match Etcd::new(&WorkerContext::default(), names, client) {
        Ok(etcd) => Rc::new(etcd),
        // No later attempt does better.
        Err(why) => return cluster.discovery_failed(&why),
    };
    let protocol = plan.settings.protocol;
    let mut failures = 0;
    loop {
        let why = match ServerKeys::fetch(&etcd, &settings.prefix, protocol).await {
            Ok(keys) => {
                if keys.servers().is_ok() {
                    failures = 0;
                }
                watch(cluster, &etcd, keys).await
            }
            Err(error) => error.to_string(),
        };
        cluster.discovery_failed(&why);
        timer::sleep(timer::pause(DISCOVERY_PAUSE, DISCOVERY_PAUSE_MAX, failures)).await;
        failures += 1;
    }
}

/// Applies changes until the watch ends; returns why.
async fn watch(cluster: &Arc<Cluster>, etcd: &Rc<Etcd>, mut keys: ServerKeys<'_>) -> String {
    let request = WatchCreateRequest {
        key: Bytes::copy_from_slice(keys.prefix.as_bytes()),
        range_end: prefix_end(keys.prefix.as_bytes()),
        start_revision: keys.revision + 1,
        ..WatchCreateRequest::default()
    };
    let observed = cluster.clone();
    let mut watch = Watch::new(etcd.clone(), request).with_observer(move |error| match error {
        Some(error) => observed.discovery_failed(&error.to_string()),
        None => observed.discovery_confirmed(),
    });
    loop {
        match keys.servers() {
            Ok(found) => cluster.discovered(found),
            Err(why) => return why,
        }
        match watch.next().await {
            Ok(response) => keys.apply(&response),
            Err(WatchError::Compacted(_)) => return EtcdError::compacted().to_string(),
            Err(WatchError::Refused(error)) => return error.to_string(),
        }
    }
}

/// The keys under a prefix at one revision, and the server that each of them names.
struct ServerKeys<'a> {
    prefix: &'a str,
    protocol: ServerProtocol,
    revision: i64,
    entries: BTreeMap<String, Result<ServerSettings, String>>,
}

impl ServerKeys<'_> {
    async fn fetch<'a>(
        etcd: &Etcd,
        prefix: &'a str,
        protocol: ServerProtocol,
    ) -> Result<ServerKeys<'a>, EtcdError> {
        let request = RangeRequest {
            key: Bytes::copy_from_slice(prefix.as_bytes()),
            range_end: prefix_end(prefix.as_bytes()),
            limit: DISCOVERED_SERVERS as i64 + 1,
            ..RangeRequest::default()
        };
        let response = etcd.range(&request).await?;
        let revision = response.header.map_or(0, |header| header.revision);
        let mut keys = ServerKeys { prefix, protocol, revision, entries: BTreeMap::new() };
        for kv in &response.kvs {
            keys.put(&kv.key, &kv.value);
        }
        Ok(keys)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        let name = String::from_utf8_lossy(key).into_owned();
        self.entries.insert(name, read_entry(value, self.protocol));
    }

    fn apply(&mut self, response: &WatchResponse) {
        for event in &response.events {
            let Some(kv) = &event.kv else { continue };
            match event.is_delete() {
                true => drop(self.entries.remove(&*String::from_utf8_lossy(&kv.key))),
                false => self.put(&kv.key, &kv.value),
            }
        }
    }

    /// The servers; an error if there are too many keys.
    fn servers(&self) -> Result<DiscoveredServers, String> {
        let entries = self.entries.iter();
        DiscoveredServers::of_entries(entries.map(|(key, server)| (key.clone(), server.clone())))
    }
}
