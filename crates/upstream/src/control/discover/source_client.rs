//! Requests to sources that speak HTTP.

use std::rc::Rc;
use std::time::Duration;

use http_client::{Client, ClientOptions, ClientSettings, PoolLimits, Url};
use message::{Body, Headers, Request, Response, Target};
use net::Resolver;
use plugin::WorkerContext;
use wire::{Known, Method};

use crate::limits::DISCOVERY_BYTES;
use crate::upstream_plan::DiscoverPlan;

/// Time-out of a connection to a source.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A client of one source.
pub(super) struct SourceClient<'a> {
    client: Client,
    names: &'a Resolver,
    url: &'a Url,
    timeout: Duration,
}

impl<'a> SourceClient<'a> {
    pub(super) fn new(
        upstream: &str,
        url: &'a Url,
        plan: &DiscoverPlan,
        names: &'a Resolver,
        timeout: Duration,
    ) -> SourceClient<'a> {
        let options = ClientOptions {
            response: timeout,
            read: timeout,
            via: false,
            ..ClientOptions::default()
        };
        let settings = ClientSettings {
            name: format!("discover {upstream}"),
            tls: plan.tls.clone(),
            server_name: plan.server_name.clone(),
            connect: CONNECT_WITHIN.min(timeout),
            limits: PoolLimits { max_idle: 1, ..PoolLimits::default() },
            options: Rc::new(options),
        };
        let client = Client::new(&WorkerContext::default(), settings);
        SourceClient { client, names, url, timeout }
    }

    /// Sends a GET request for a target; returns the head of the response and its content.
    pub(super) async fn get(
        &self,
        target: &Target,
        fields: &[(&str, &[u8])],
    ) -> Result<(Response, Vec<u8>), String> {
        let mut headers = Headers::new();
        headers.append(Known::Host, &self.url.authority);
        headers.append(Known::UserAgent, "tidegate-discovery");
        for (name, value) in fields {
            headers.append(*name, *value);
        }
        let request = Request::made_up(Method::Get, target.clone(), headers);
        let limit = DISCOVERY_BYTES as u64;
        let (names, url) = (self.names, self.url);
        let fetching = self.client.fetch(names, url, &request, Body::Empty, self.timeout, limit);
        let mut response = fetching.await.map_err(|fault| fault.detail.into_owned())?;
        let content = response.body.collect(limit).await;
        let content = content.map_err(|fault| fault.detail.into_owned())?;
        Ok((response, content.to_vec()))
    }
}
