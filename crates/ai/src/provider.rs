//! A provider: how a worker sends requests to it.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_client::{Client, ClientOptions, ClientSettings, PoolLimits, Url};
use json_filters::on_worker_or_pool;
use message::{Body, Fault, FaultKind, Headers, Request, RequestTrace, Response, Target};
use net::Resolver;
use net::tls::ClientTls;
use plugin::WorkerContext;
use settings::Secret;
use wire::{Known, Method};

use crate::accounting::is_event_stream;
use crate::anthropic;
use crate::api_error::ApiError;
use crate::endpoint::{Dialect, Endpoint};
use crate::settings::{AiProxy, ProviderSettings};

/// Headers of a response that the client gets. The others are about the gateway's account.
const PASSED: [Known; 4] =
    [Known::ContentType, Known::ContentEncoding, Known::CacheControl, Known::RetryAfter];

/// A worker's connections to a provider.
pub(crate) struct Provider {
    client: Client,
    names: Rc<Resolver>,
    pub(crate) url: Url,
    dialect: Dialect,
    api_version: String,
    max_tokens: u32,
    key: Option<Secret>,
    response: Duration,
    /// Streams are asked for their usage.
    pub(crate) stream_usage: bool,
}

/// What a provider is sent.
pub(crate) struct ProviderRequest<'a> {
    pub(crate) endpoint: Endpoint,
    /// The provider's name for the model.
    pub(crate) model: &'a str,
    /// The headers of the client.
    pub(crate) headers: &'a Headers,
    /// The trace that the provider continues.
    pub(crate) trace: Option<&'a RequestTrace>,
    pub(crate) body: Bytes,
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
            api_version: settings
                .api_version
                .as_ref()
                .map_or(settings.api.default_version(), |version| &version.value)
                .to_owned(),
            max_tokens: settings.max_tokens,
            key: settings.key.as_ref().map(|key| key.value.clone()),
            response,
            stream_usage: settings.stream_usage,
        }
    }

    /// Sends a request and returns its response, whose body arrives as the provider sends it.
    pub(crate) async fn send(&self, sent: ProviderRequest<'_>) -> Result<Response, Fault> {
        let ProviderRequest { endpoint, model, headers, trace, body } = sent;
        let mut request = self.request(endpoint, model, headers)?;
        if let Some(trace) = trace {
            trace.propagate(&mut request.headers);
        }
        let body = match self.dialect {
            Dialect::OpenAi | Dialect::Azure => body,
            Dialect::Anthropic => match self.translated_request(body, model).await {
                Ok(body) => body,
                // The client's request cannot be translated.
                Err(error) => return Ok(error.response()),
            },
        };
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
        match self.dialect {
            Dialect::OpenAi | Dialect::Azure => Ok(response),
            Dialect::Anthropic => self.translated_response(response).await,
        }
    }

    pub(crate) fn has(&self, endpoint: Endpoint) -> bool {
        self.dialect.has(endpoint)
    }

    async fn translated_request(&self, body: Bytes, model: &str) -> Result<Bytes, ApiError> {
        let (length, model, max_tokens) = (body.len(), model.to_owned(), self.max_tokens);
        let translate = move || anthropic::request(&body, &model, max_tokens);
        let translated = on_worker_or_pool(length, translate).await.unwrap_or_else(|| {
            Err(ApiError::new(500, "internal_error", "The body could not be read."))
        });
        translated.map(Bytes::from)
    }

    async fn translated_response(&self, mut response: Response) -> Result<Response, Fault> {
        if response.headers.contains(Known::ContentEncoding) {
            let detail = "a compressed response cannot be translated";
            return Err(Fault::new(FaultKind::ResponseContentCoding, detail));
        }
        let created_s = net::clock::wall_secs();
        if response.status < 300 && is_event_stream(&response.headers) {
            response.body = anthropic::TranslatedStream::body(response.body, created_s);
            return Ok(response);
        }
        let collect = response.body.collect(anthropic::RESPONSE_BYTES_MAX);
        let late = || Err(Fault::new(FaultKind::ResponseTimeout, "no whole response in time"));
        let content = net::timer::within(self.response, collect).await.unwrap_or_else(late);
        let content = content.map_err(|fault| match fault.kind {
            FaultKind::BodyTooLarge => {
                Fault::new(FaultKind::ResponseBodySize, "the response is too large to translate")
            }
            _ => fault,
        })?;
        let text = match response.status < 300 {
            false => anthropic::error(&content),
            true => {
                let length = content.len();
                let translate = move || anthropic::response(&content, created_s);
                let text = on_worker_or_pool(length, translate).await.flatten();
                let fail = || Fault::new(FaultKind::ProtocolError, "the response is not a message");
                text.ok_or_else(fail)?
            }
        };
        response.headers.remove(Known::ContentType);
        response.headers.append(Known::ContentType, "application/json");
        response.body = Body::from(text);
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
            (Some(key), Dialect::Anthropic) => headers.append("x-api-key", key.expose()),
        }
        if self.dialect == Dialect::Anthropic {
            headers.append("anthropic-version", &*self.api_version);
        }
        Ok(Request::made_up(Method::Post, target, headers))
    }
}
