//! `validate`: checks requests against JSON Schema before they are forwarded.
//!
//! Promises that schemas are resolved when the configuration is read, without a file or a
//! connection; that expressions in schemas run in linear time; and that the response to an invalid
//! request names places and rules, never the content. Does not change the request: what was checked
//! is what is forwarded. An object with two members of one name is invalid, because the application
//! may read the one that was not checked.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use message::{Body, FaultKind, Request, Response};
use plugin::{
    Filter, FilterKind, FilterPlan, MaybeFuture, MediaPattern, Stage, Step, WorkerContext,
};
use settings::{Node, Reader, Setting, Size};
use telemetry::log::Level;
use wire::Known;

use crate::content::{ContentError, ON_WORKER_BYTES, Rejections, forget_encoding, take_request};
use crate::tree;
use schema::{JsonSchema, Violation};

mod keywords;
mod parameters;
mod schema;

pub use keywords::is_keyword;

pub(crate) const KIND: FilterKind = FilterKind { name: "validate", schema: Validate::schema, read };

/// Checks requests against JSON Schema (draft 2020-12 unless `$schema` says otherwise).
///
/// An invalid request gets 400 with `application/problem+json`, whose `errors` name the places as
/// JSON Pointers and the violated keywords, and nothing of the content. Schemas are written here or
/// read from a file; they may refer (`$ref`) to parts of themselves, not to other documents. An
/// unknown keyword, which would check nothing, is an error unless its name begins with `x-`.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct Validate {
    /// The schema of the body. Bodies of other media types than `types` get 415.
    #[setting(example = { "type": "object", "required": ["name"] })]
    body: Option<JsonSchema>,
    /// Rejects requests without a body.
    #[setting(default = true)]
    body_required: bool,
    /// The schema of the query as an object of its parameters. A text becomes a number, a truth
    /// value or a list where the type in `properties` says so.
    #[setting(example = { "required": ["page"], "additionalProperties": false })]
    query: Option<JsonSchema>,
    /// The schema of the headers as an object. It has only those that the schema names in
    /// `properties` or `required`.
    #[setting(example = { "required": ["x-request-id"] })]
    headers: Option<JsonSchema>,
    /// The schema of the path parameters of the route, as an object.
    #[setting(example = { "required": ["id"] })]
    path: Option<JsonSchema>,
    /// The largest body, also when it is decoded.
    #[setting(default = "1MiB", range = "1B"..="64MiB")]
    max_size: Size,
    /// The media types that are JSON.
    #[setting(default = ["application/json", "text/json", "*+json"])]
    types: Vec<MediaPattern>,
    /// The status of the response to an invalid request.
    #[setting(default = 400, range = 400..=499)]
    status: u16,
    /// Counts and logs invalid requests, and forwards them. What cannot be read as JSON at all is
    /// rejected all the same.
    #[setting(default = false)]
    log_only: bool,
}

fn check(settings: &Validate, node: &Node, reader: &mut Reader<'_>) {
    let Validate { body, query, headers, path, .. } = settings;
    if [body, query, headers, path].iter().all(|schema| schema.is_none()) {
        reader.error(node.span, "this checks nothing: give body, query, headers or path");
    }
    if body.is_none() {
        let why = "there is no schema of the body";
        return reader.no_effect(node, &["body_required", "max_size", "types"], why);
    }
    if settings.types.is_empty() {
        reader.error(node.get("types").unwrap_or(node).span, "without types no body is allowed");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(ValidatePlan(Arc::new(Validate::read(node, reader)?))))
}

struct ValidatePlan(Arc<Validate>);

impl FilterPlan for ValidatePlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let rejected = Rejections::new(worker, KIND.name, &REASONS);
        Stage::Filter(Rc::new(ValidateFilter { settings: self.0.clone(), rejected }))
    }

    fn describe(&self) -> String {
        let Validate { body, query, headers, path, .. } = &*self.0;
        let parts = [("body", body), ("query", query), ("headers", headers), ("path", path)];
        let given = parts.iter().filter(|(_, schema)| schema.is_some()).map(|(part, _)| *part);
        let log_only = if self.0.log_only { ", log only" } else { "" };
        format!("{}{log_only}", given.collect::<Vec<_>>().join(", "))
    }
}

/// Why requests are rejected; `logged` are invalid requests that `log_only` forwards.
const REASONS: [&str; 9] = [
    "body",
    "query",
    "headers",
    "path",
    "too_large",
    "content_type",
    "content_coding",
    "invalid",
    "logged",
];

struct ValidateFilter {
    settings: Arc<Validate>,
    rejected: Rejections,
}

impl ValidateFilter {
    /// Decides about a request that violates the schema of this part.
    fn decide(&self, part: &'static str, violations: &[Violation], request: &mut Request) -> Step {
        if violations.is_empty() {
            return Step::Continue;
        }
        let first = &violations[0].keyword;
        let action = if self.settings.log_only { "forwarding it" } else { "rejecting it" };
        telemetry::event_limited!(
            10,
            if self.settings.log_only { Level::Warn } else { Level::Debug },
            "request violates its schema",
            route = request.route.as_ref().map_or("", |route| &*route.name),
            part = part,
            keyword = first,
            action = action,
            trace_id = request.trace_id()
        );
        if self.settings.log_only {
            self.rejected.count("logged");
            return Step::Continue;
        }
        self.rejected.count(part);
        self.respond(self.settings.status, part, violations, request)
    }

    fn respond(
        &self,
        status: u16,
        part: &str,
        violations: &[Violation],
        request: &mut Request,
    ) -> Step {
        request.notes.fault = Some(FaultKind::InvalidContent.slug());
        let errors = violations.iter().map(|violation| {
            serde_json::json!({
                "in": part, "pointer": violation.pointer, "keyword": violation.keyword,
            })
        });
        let problem = serde_json::json!({
            "type": "about:blank",
            "title": wire::h1::reason(status),
            "status": status,
            "errors": errors.collect::<Vec<_>>(),
        });
        let content = format!("{problem}\n");
        Step::Respond(Response::with_body(status, "application/problem+json", content))
    }

    /// Checks all parts but the body.
    fn check_parameters(&self, request: &mut Request) -> Step {
        let Validate { query, headers, path, .. } = &*self.settings;
        for (part, schema, collect) in [
            ("path", path, parameters::of_path as fn(&Request, &JsonSchema) -> _),
            ("query", query, parameters::of_query),
            ("headers", headers, parameters::of_headers),
        ] {
            let Some(schema) = schema else { continue };
            let violations = schema.violations(&collect(request, schema));
            match self.decide(part, &violations, request) {
                Step::Continue => {}
                rejected => return rejected,
            }
        }
        Step::Continue
    }

    /// Decides about a request without a body.
    fn check_absent(&self, request: &mut Request) -> Step {
        if !self.settings.body_required {
            return Step::Continue;
        }
        let missing = Violation { pointer: String::new(), keyword: "required".to_owned() };
        self.decide("body", &[missing], request)
    }

    async fn check_body(&self, schema: &JsonSchema, request: &mut Request) -> Step {
        let Validate { types, max_size, .. } = &*self.settings;
        let content = match take_request(request, types, max_size.bytes()).await {
            Ok(content) if content.is_empty() => return self.check_absent(request),
            Ok(content) => content,
            Err(error) => {
                self.rejected.count(error.reason());
                return Step::Fail(ContentError::of_request(error));
            }
        };
        let violations = if content.len() > ON_WORKER_BYTES {
            let (schema, content) = (schema.clone(), content.clone());
            net::blocking(move || body_violations(&schema, &content)).await
        } else {
            Ok(body_violations(schema, &content))
        };
        // The content is forwarded as it was checked: decoded.
        if request.headers.contains(Known::ContentEncoding) {
            forget_encoding(&mut request.headers);
        }
        request.body = Body::from(content);
        match violations {
            Ok(Ok(violations)) => self.decide("body", &violations, request),
            Ok(Err(keyword)) => {
                self.rejected.count("invalid");
                let violation = Violation { pointer: String::new(), keyword };
                self.respond(400, "body", &[violation], request)
            }
            Err(_) => Step::Fail(message::Fault::internal("the check of a body was aborted")),
        }
    }
}

/// The violations of the content; an error if it is not JSON.
fn body_violations(schema: &JsonSchema, content: &Bytes) -> Result<Vec<Violation>, String> {
    tree::parse(content).map_err(|error| error.to_string())?;
    // Numbers out of the range of a double are JSON, and no value that a schema could judge.
    let value = serde_json::from_slice(content).map_err(|_| "unsupported number".to_owned())?;
    Ok(schema.violations(&value))
}

impl Filter for ValidateFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        match self.check_parameters(request) {
            Step::Continue => {}
            rejected => return rejected.into(),
        }
        let Some(schema) = &self.settings.body else { return Step::Continue.into() };
        if request.body.is_empty() {
            return self.check_absent(request).into();
        }
        MaybeFuture::of(self.check_body(schema, request))
    }
}

#[cfg(test)]
mod tests;
