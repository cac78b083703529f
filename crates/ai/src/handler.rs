//! The handler `ai_proxy`.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use message::{Fault, FaultKind, HandlerResult, Request, Response};
use net::tls::ClientTls;
use plugin::{Handler, HandlerKind, HandlerPlan, MaybeFuture, WorkerContext};
use settings::{Node, Reader, Setting, Spanned};
use telemetry::log::Level;
use telemetry::{CachePadded, Counter, event, families};
use wire::{Known, Method};

use crate::ON_WORKER_BYTES;
use crate::api_error::ApiError;
use crate::endpoint::Endpoint;
use crate::models::{Model, ModelTable};
use crate::provider::Provider;
use crate::settings::AiProxy;

pub(crate) const KIND: HandlerKind =
    HandlerKind { name: "ai_proxy", schema: AiProxy::schema, read };

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn HandlerPlan>> {
    let settings = AiProxy::read(node, reader)?;
    let mut tls = Vec::new();
    for (name, provider) in &settings.providers.entries {
        tls.push(match provider.url.value.is_secure {
            true => {
                let default = Spanned::new(Default::default(), name.span);
                let own = provider.tls.as_ref().unwrap_or(&default);
                Some(own.build(&[b"http/1.1"], own.span, reader)?)
            }
            false => None,
        });
    }
    let models = settings.models.entries.iter().filter_map(|(name, model)| {
        let is_own = |(name, _): &(Spanned<String>, _)| name.value == model.provider.value;
        Some(Model {
            name: name.value.clone(),
            target: model.model.clone().unwrap_or_else(|| name.value.clone()),
            provider: settings.providers.entries.iter().position(is_own)?,
            provider_name: model.provider.value.clone(),
        })
    });
    let models = Arc::new(ModelTable(models.collect()));
    Some(Arc::new(AiProxyPlan { settings, tls, models }))
}

struct AiProxyPlan {
    settings: AiProxy,
    /// TLS of each provider, in the order of the settings.
    tls: Vec<Option<ClientTls>>,
    models: Arc<ModelTable>,
}

impl HandlerPlan for AiProxyPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Rc<dyn Handler> {
        let entries = self.settings.providers.entries.iter().zip(&self.tls);
        let providers = entries.map(|((name, provider), tls)| {
            Provider::new(name, provider, tls.clone(), &self.settings, worker)
        });
        let counters = self.models.0.iter().map(|model| ModelCounters::new(model, worker));
        Rc::new(AiProxyHandler {
            providers: providers.collect(),
            counters: counters.collect(),
            models: self.models.clone(),
            body_bytes_max: self.settings.max_body.bytes(),
            worker: worker.clone(),
        })
    }

    fn describe(&self) -> String {
        let names: Vec<&str> = self.models.0.iter().map(|model| &*model.name).collect();
        names.join(", ")
    }
}

/// Counters of the requests for a model.
struct ModelCounters {
    ok: Arc<CachePadded<Counter>>,
    rejected: Arc<CachePadded<Counter>>,
    failed: Arc<CachePadded<Counter>>,
}

impl ModelCounters {
    fn new(model: &Model, worker: &WorkerContext) -> ModelCounters {
        let counter = |result| {
            let labels = [&*model.provider_name, &*model.name, result];
            worker.telemetry.worker_counter(worker.index, &families::AI_REQUESTS, &labels)
        };
        ModelCounters {
            ok: counter("ok"),
            rejected: counter("rejected"),
            failed: counter("failed"),
        }
    }
}

struct AiProxyHandler {
    providers: Vec<Provider>,
    /// In the order of the models.
    counters: Vec<ModelCounters>,
    models: Arc<ModelTable>,
    body_bytes_max: u64,
    worker: WorkerContext,
}

impl Handler for AiProxyHandler {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        MaybeFuture::of(async move {
            let error = match self.respond(request).await {
                Ok(result) => return result,
                Err(error) => error,
            };
            self.count_rejection(error.code);
            let mut response = error.response();
            if error.status == 405 {
                let allowed = if Self::is_list(request) { "GET, HEAD" } else { "POST" };
                response.headers.append(Known::Allow, allowed);
            }
            // The rest of a body that is too large is not received.
            response.close = error.status == 413;
            Ok(response)
        })
    }
}

impl AiProxyHandler {
    fn is_list(request: &Request) -> bool {
        let path = request.target.path();
        path == "/v1/models" || path.starts_with("/v1/models/")
    }

    /// Counts a request that no provider got. Rare, so the counter is looked up.
    #[cold]
    fn count_rejection(&self, code: &str) {
        let WorkerContext { telemetry, index, .. } = &self.worker;
        telemetry.worker_counter(*index, &families::AI_REJECTIONS, &[code]).inc();
    }

    async fn respond(&self, request: &mut Request) -> Result<HandlerResult, ApiError> {
        if Self::is_list(request) {
            return self.list(request).map(Ok);
        }
        let path = request.target.path().strip_prefix("/v1/").unwrap_or_default();
        let endpoint = Endpoint::of(path).ok_or_else(|| {
            ApiError::new(404, "unknown_url", "There is no such URL in this API.")
        })?;
        if request.method != Method::Post {
            return Err(wrong_method());
        }
        let content = match self.content(request).await? {
            Ok(content) => content,
            Err(fault) => return Ok(Err(fault)),
        };
        let (index, body) = self.prepare(content).await?;
        Ok(Ok(self.forward(endpoint, index, body, request).await))
    }

    fn list(&self, request: &Request) -> Result<Response, ApiError> {
        if !matches!(request.method, Method::Get | Method::Head) {
            return Err(wrong_method());
        }
        let name = request.target.path().strip_prefix("/v1/models/");
        Ok(Response::json(200, self.models.describe(name)?))
    }

    /// The body of a request; a fault if the client broke it off.
    async fn content(&self, request: &mut Request) -> Result<Result<Bytes, Fault>, ApiError> {
        if request.headers.contains(Known::ContentEncoding) {
            let message = "A request with a content encoding is not supported.";
            return Err(ApiError::new(415, "content_encoding", message));
        }
        match request.collect_body(self.body_bytes_max).await {
            Err(fault) if fault.kind == FaultKind::BodyTooLarge => {
                let message = format!("The body has more than {} bytes.", self.body_bytes_max);
                Err(ApiError::new(413, "too_large", message))
            }
            result => Ok(result),
        }
    }

    async fn prepare(&self, content: Bytes) -> Result<(usize, Bytes), ApiError> {
        if content.len() <= ON_WORKER_BYTES {
            return self.models.prepare(&content);
        }
        let models = self.models.clone();
        let prepared = net::blocking(move || models.prepare(&content)).await;
        prepared.unwrap_or_else(|_| {
            Err(ApiError::new(500, "internal_error", "The body could not be read."))
        })
    }

    async fn forward(
        &self,
        endpoint: Endpoint,
        index: usize,
        body: Bytes,
        request: &mut Request,
    ) -> Response {
        let model = &self.models.0[index];
        let counters = &self.counters[index];
        request.notes.upstream = Some(Rc::from(&*model.provider_name));
        request.notes.upstream_attempts = 1;
        let provider = &self.providers[model.provider];
        match provider.send(endpoint, &model.target, &request.headers, body).await {
            Ok(response) => {
                match response.status {
                    400..=499 => &counters.rejected,
                    500.. => &counters.failed,
                    _ => &counters.ok,
                }
                .inc();
                response
            }
            Err(fault) => {
                counters.failed.inc();
                request.notes.fault = Some(fault.slug());
                event!(
                    Level::Warn,
                    "a request to an AI provider failed",
                    provider = model.provider_name,
                    model = model.name,
                    reason = fault
                );
                provider_failed(&fault).response()
            }
        }
    }
}

fn wrong_method() -> ApiError {
    ApiError::new(405, "method_not_allowed", "This URL does not have that method.")
}

/// The error of a request whose provider failed.
fn provider_failed(fault: &Fault) -> ApiError {
    match fault.status {
        504 => ApiError::new(504, "provider_timeout", "The provider did not respond in time."),
        status => ApiError::new(status, "provider_failed", "The provider of the model failed."),
    }
}
