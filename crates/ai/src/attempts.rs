//! The attempts of a request: one provider of its model after the other, until one responds.
//!
//! Promises that nothing is attempted again once the client may have got a byte, and that every
//! attempt is counted.

use std::rc::Rc;

use message::{AiCall, Body, Fault, Frame, OpenSpan, Request, Response, SpanKind};
use plugin::WorkerContext;
use telemetry::log::Level;
use telemetry::{event, families};

use crate::accounting::{Account, AccountedBody};
use crate::api_error::ApiError;
use crate::endpoint::Endpoint;
use crate::handler::AiProxyHandler;
use crate::provider::ProviderRequest;
use crate::request_body::RequestBody;
use crate::target::{Target, TargetHealth, Tried, choose, retry_after_ms};

impl AiProxyHandler {
    /// Sends a request to the providers of its model until one responds.
    pub(crate) async fn forward(
        &self,
        endpoint: Endpoint,
        body: &RequestBody,
        request: &mut Request,
        mut account: Account,
    ) -> Response {
        let model = &self.models.0[body.model];
        let state = &self.states[body.model];
        let mut tried = Tried::default();
        let mut fitting = 0;
        for (index, target) in model.targets.iter().enumerate() {
            match self.providers[target.provider].has(endpoint) {
                true => fitting += 1,
                false => tried.add(index),
            }
        }
        if fitting == 0 {
            return no_endpoint().response();
        }
        let attempts = self.attempts.min(fitting);
        let mut result = Err(Fault::internal("a model without a provider"));
        for attempt in 1..=attempts {
            let now_ms = net::clock::now().as_ms();
            let draw = |total| fastrand::u32(..total);
            let Some(index) = choose(&model.targets, &state.health, tried, now_ms, draw) else {
                break;
            };
            tried.add(index);
            request.notes.upstream_attempts = attempt as u16;
            let is_last = attempt == attempts;
            let mut first = None;
            let span = self.begin_span(endpoint, &model.targets[index], request);
            result = self.attempt(endpoint, body, index, request, &mut account).await;
            if !is_last {
                (result, first) = begun(result).await;
            }
            if let Some(span) = span {
                span.end_attempt(&mut request.trace, &result);
            }
            state.counters[index].count(&result);
            let Some(reason) = failure(&result) else {
                state.health[index].succeed();
                if let Ok(response) = &mut result
                    && response.status < 300
                {
                    let removes_usage = endpoint.has_stream_options() && !body.asks_usage;
                    let has_output = endpoint != Endpoint::Embeddings;
                    AccountedBody::wrap(response, first, account, removes_usage, has_output);
                    return result.unwrap_or_default();
                }
                break;
            };
            let target = &model.targets[index];
            self.note_failure(request, &model.name, target, &state.health[index], &result);
            if !is_last {
                self.count_fallback(&model.name, target, reason);
            }
        }
        account.forgo();
        result.unwrap_or_else(|fault| {
            request.notes.fault = Some(fault.slug());
            provider_failed(&fault).response()
        })
    }

    /// Begins the span of an attempt, by OpenTelemetry's semantic conventions of generative AI.
    fn begin_span(
        &self,
        endpoint: Endpoint,
        target: &Target,
        request: &mut Request,
    ) -> Option<Box<OpenSpan>> {
        let mut span = Box::new(request.trace.as_mut()?.enter("ai attempt", SpanKind::Client)?);
        let url = &self.providers[target.provider].url;
        span.set("gen_ai.operation.name", endpoint.operation());
        span.set("gen_ai.provider.name", &*target.provider_name);
        span.set("gen_ai.request.model", &*target.model);
        span.set_attempt(&url.host, Some(url.port), request.notes.upstream_attempts);
        Some(span)
    }

    /// Sends a request to one of the providers of its model.
    async fn attempt(
        &self,
        endpoint: Endpoint,
        body: &RequestBody,
        index: usize,
        request: &mut Request,
        account: &mut Account,
    ) -> Result<Response, Fault> {
        let model = &self.models.0[body.model];
        let target = &model.targets[index];
        let provider = &self.providers[target.provider];
        let provider_name: Rc<str> = Rc::from(&*target.provider_name);
        request.notes.upstream = Some(provider_name.clone());
        let call = Rc::new(AiCall::new(Rc::from(&*model.name), provider_name));
        request.notes.ai = Some(call.clone());
        account.begin(call, self.states[body.model].tokens[index].clone());
        let adds_usage = provider.stream_usage && endpoint.has_stream_options();
        let sent = ProviderRequest {
            endpoint,
            model: &target.model,
            headers: &request.headers,
            trace: request.trace.as_ref(),
            body: body.with_model(&target.model, adds_usage),
        };
        provider.send(sent).await
    }

    fn note_failure(
        &self,
        request: &Request,
        model: &str,
        target: &Target,
        health: &TargetHealth,
        result: &Result<Response, Fault>,
    ) {
        if let Err(fault) = result {
            event!(
                Level::Warn,
                "a request to an AI provider failed",
                provider = target.provider_name,
                model = model,
                reason = fault,
                trace_id = request.trace_id()
            );
        }
        let retry_after_ms = result.as_ref().ok().and_then(retry_after_ms);
        let now_ms = net::clock::now().as_ms();
        if let Some(span_ms) = health.fail(&self.ejection, retry_after_ms, now_ms) {
            let WorkerContext { telemetry, index, .. } = &self.worker;
            let labels = [&*target.provider_name, model];
            telemetry.worker_counter(*index, &families::AI_EJECTIONS, &labels).inc();
            event!(
                Level::Warn,
                "an AI provider is ejected for a model: other providers come first",
                provider = target.provider_name,
                model = model,
                ejected_ms = span_ms
            );
        }
    }

    /// Counts a request that the next provider gets. Rare, so the counter is looked up.
    #[cold]
    fn count_fallback(&self, model: &str, target: &Target, reason: &str) {
        let WorkerContext { telemetry, index, .. } = &self.worker;
        let labels = [&*target.provider_name, model, reason];
        telemetry.worker_counter(*index, &families::AI_FALLBACKS, &labels).inc();
    }
}

/// Waits for the first frame of a successful response: a stream may fail before it.
async fn begun(result: Result<Response, Fault>) -> (Result<Response, Fault>, Option<Frame>) {
    match result {
        Ok(mut response) if response.status < 300 && matches!(response.body, Body::Stream(_)) => {
            match response.body.frame().await.transpose() {
                Ok(first) => (Ok(response), first),
                Err(fault) => (Err(fault), None),
            }
        }
        result => (result, None),
    }
}

/// Why a result is a failure after which another provider is tried.
fn failure(result: &Result<Response, Fault>) -> Option<&'static str> {
    match result.as_ref().map(|response| response.status) {
        Err(fault) => Some(fault.slug()),
        Ok(408) => Some("408"),
        Ok(429) => Some("429"),
        Ok(500..) => Some("5xx"),
        Ok(_) => None,
    }
}

fn no_endpoint() -> ApiError {
    let message = "The providers of the model do not have this URL.";
    ApiError::of_model(400, "endpoint_unsupported", message.to_owned())
}

/// The error of a request whose providers failed.
fn provider_failed(fault: &Fault) -> ApiError {
    match fault.status {
        504 => ApiError::new(504, "provider_timeout", "The provider did not respond in time."),
        status => ApiError::new(status, "provider_failed", "The provider of the model failed."),
    }
}
