//! A provider: how a worker sends requests to it.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_client::{Client, ClientOptions, ClientSettings, PoolLimits, Url};
use message::{Body, Fault, FaultKind, Headers, Request, Response, Target};
use net::Resolver;
use net::tls::ClientTls;
use plugin::WorkerContext;
use settings::Secret;
use wire::{Known, Method};

use crate::endpoint::{Dialect, Endpoint};
use crate::settings::{AiProxy, ProviderSettings};

/// Headers of a response that the client gets. The others are about the gateway's account.
const PASSED: [Known; 4] =
    [Known::ContentType, Known::ContentEncoding, Known::CacheControl, Known::RetryAfter];

/// A worker's connections to a provider.
pub(crate) struct Provider {
    client: Client,
    names: Rc<Resolver>,
    url: Url,
    dialect: Dialect,
    api_version: String,
    key: Option<Secret>,
    response: Duration,
}

impl Provider {
    pub(crate) fn new(
        name: &str,
        settings: &ProviderSettings,
        tls: Option<ClientTls>,
        all: &AiProxy,
        worker: &WorkerContext,
    ) -> Provider {
        let response = all.response.get();
        let options = ClientOptions {
            response,
            read: all.idle.get(),
            write: all.idle.get(),
            via: false,
            ..ClientOptions::default()
        };
        let client = ClientSettings {
            name: format!("ai_proxy {name}"),
            tls,
            server_name: settings.tls.as_ref().and_then(|tls| tls.server_name()),
            connect: all.connect.get(),
            limits: PoolLimits::default(),
            options: Rc::new(options),
        };
        Provider {
            client: Client::new(worker, client),
            names: worker.local.get((), Resolver::system),
            url: settings.url.value.clone(),
            dialect: settings.api,
            api_version: settings.api_version.value.clone(),
            key: settings.key.as_ref().map(|key| key.value.clone()),
            response,
        }
    }

    /// Sends a request and returns its response, whose body arrives as the provider sends it.
    pub(crate) async fn send(
        &self,
        endpoint: Endpoint,
        model: &str,
        headers: &Headers,
        body: Bytes,
    ) -> Result<Response, Fault> {
        let request = self.request(endpoint, model, headers)?;
        let exchange = async {
            let connection = self.client.connect(&self.names, &self.url).await?;
            self.client.send(connection, &request, Body::from(body)).await
        };
        let late = || {
            let detail = format!("no response within {} ms", self.response.as_millis());
            Err(Fault::new(FaultKind::ResponseTimeout, detail))
        };
        let mut response =
            net::timer::within(self.response, exchange).await.unwrap_or_else(late)?;
        if matches!(response.status, 300..=399 | 401 | 403) {
            // A body about the key may repeat a part of it.
            let detail = format!("the provider responded {}", response.status);
            return Err(Fault::new(FaultKind::ResponseStatus, detail));
        }
        response.headers.retain(|field| {
            let known = Known::from_bytes(field.name);
            known.is_some_and(|known| PASSED.contains(&known))
        });
        Ok(response)
    }

    fn request(&self, endpoint: Endpoint, model: &str, from: &Headers) -> Result<Request, Fault> {
        let base = String::from_utf8_lossy(self.url.target.raw());
        let target = endpoint.target(self.dialect, &base, model, &self.api_version);
        let target = Target::new(target.into())
            .map_err(|_| Fault::internal("the path of a provider is malformed"))?;
        let mut headers = Headers::new();
        headers.append(Known::Host, &self.url.authority);
        headers.append(Known::ContentType, "application/json");
        if let Some(accept) = from.joined(Known::Accept) {
            headers.append(Known::Accept, accept);
        }
        match (&self.key, self.dialect) {
            (None, _) => {}
            (Some(key), Dialect::OpenAi) => {
                headers.append(Known::Authorization, [b"Bearer ", key.expose()].concat());
            }
            (Some(key), Dialect::Azure) => headers.append("api-key", key.expose()),
        }
        Ok(Request::made_up(Method::Post, target, headers))
    }
}
