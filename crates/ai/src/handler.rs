//! The handler `ai_proxy`.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use message::{Fault, FaultKind, HandlerResult, Request, Response};
use net::tls::ClientTls;
use plugin::{ConsumerLimit, Handler, HandlerKind, HandlerPlan, MaybeFuture, WorkerContext};
use settings::{Node, Reader, Setting};
use telemetry::families;
use tls_settings::UpstreamTlsSettings;
use wire::{Known, Method};

use crate::accounting::Account;
use crate::api_error::ApiError;
use crate::endpoint::Endpoint;
use crate::model_state::ModelState;
use crate::models::{Model, ModelTable};
use crate::provider::Provider;
use crate::request_body::RequestBody;
use crate::settings::{AiProxy, Ejection};
use crate::token_limits::TokenLimits;
use json_filters::on_worker_or_pool;

pub(crate) const KIND: HandlerKind =
    HandlerKind { name: "ai_proxy", schema: AiProxy::schema, read };

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn HandlerPlan>> {
    let settings = AiProxy::read(node, reader)?;
    let mut tls = Vec::new();
    for (name, provider) in &settings.providers.entries {
        tls.push(match provider.url.value.is_secure {
            true => Some(UpstreamTlsSettings::client(provider.tls.as_ref(), name.span, reader)?),
            false => None,
        });
    }
    let models = Arc::new(ModelTable::of(&settings)?);
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
        let models = self.models.0.iter();
        Rc::new(AiProxyHandler {
            providers: providers.collect(),
            states: models.map(|model| ModelState::new(model, &self.settings, worker)).collect(),
            models: self.models.clone(),
            body_bytes_max: self.settings.max_body.bytes(),
            attempts: self.settings.attempts as usize,
            ejection: self.settings.ejection,
            token_limits: TokenLimits::new(&self.settings.token_limits, worker),
            worker: worker.clone(),
        })
    }

    fn consumer_limits(&self) -> Vec<ConsumerLimit> {
        self.settings.token_limits.iter().filter_map(|limit| limit.consumer_limit()).collect()
    }

    fn describe(&self) -> String {
        let names: Vec<String> = self.models.0.iter().map(Model::describe).collect();
        names.join("; ")
    }
}

pub(crate) struct AiProxyHandler {
    pub(crate) providers: Vec<Provider>,
    pub(crate) models: Arc<ModelTable>,
    /// In the order of the models.
    pub(crate) states: Vec<ModelState>,
    pub(crate) attempts: usize,
    pub(crate) ejection: Ejection,
    token_limits: TokenLimits,
    body_bytes_max: u64,
    pub(crate) worker: WorkerContext,
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
            let status = error.status;
            let mut response = error.response();
            if status == 405 {
                let allowed = if Self::is_list(request) { "GET, HEAD" } else { "POST" };
                response.headers.append(Known::Allow, allowed);
            }
            // The rest of a body that is too large is not received.
            response.close = status == 413;
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
        let mut allowance = self.token_limits.check(request)?;
        let content = match self.content(request).await? {
            Ok(content) => content,
            Err(fault) => return Ok(Err(fault)),
        };
        let body = self.prepare(content, endpoint, request).await?;
        let account = Account::new(request, body.len(), std::mem::take(&mut allowance.charges));
        let mut response = self.forward(endpoint, &body, request, account).await;
        allowance.write(&mut response.headers);
        Ok(Ok(response))
    }

    fn list(&self, request: &Request) -> Result<Response, ApiError> {
        if !matches!(request.method, Method::Get | Method::Head) {
            return Err(wrong_method());
        }
        let name = request.target.path().strip_prefix("/v1/models/");
        let visible = self.models.visible(request);
        Ok(Response::json(200, self.models.describe(name, &visible)?))
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

    async fn prepare(
        &self,
        content: Bytes,
        endpoint: Endpoint,
        request: &Request,
    ) -> Result<RequestBody, ApiError> {
        let visible = self.models.visible(request);
        let models = self.models.clone();
        let length = content.len();
        let read = move || RequestBody::read(content, endpoint, &models, &visible);
        on_worker_or_pool(length, read).await.unwrap_or_else(|| {
            Err(ApiError::new(500, "internal_error", "The body could not be read."))
        })
    }
}

fn wrong_method() -> ApiError {
    ApiError::new(405, "method_not_allowed", "This URL does not have that method.")
}
