//! `template`: new bodies for requests and responses, filled in from a text.
//!
//! Promises that a request is forwarded with the new body or rejected, and that a successful
//! response of the types that a template reads is sent with the new body or becomes a 502. The
//! whole body is in memory, up to `max_size`.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use message::{Body, Fault, FaultKind, Request, Response};
use plugin::{
    Filter, FilterKind, FilterPlan, MaybeFuture, MediaPattern, Stage, Step, WorkerContext,
};
use settings::{Node, Reader, Setting, Size};
use wire::{Known, Method};

use crate::content::{
    ContentError, Rejections, forget_encoding, has_type, mark_changed, on_worker_or_pool, take,
    take_request,
};
use text::{BodyText, CompiledText, FillError, Format, Input};

mod text;

pub(crate) const KIND: FilterKind =
    FilterKind { name: "template", schema: BodyTemplates::schema, read };

/// Replaces the bodies of requests and of successful responses by a text with values.
///
/// `{json /user/name}` is the value at a JSON Pointer (RFC 6901) in the old body, `{json}` the
/// whole of it, and `{form name}` a parameter of a body in form encoding; variables of the request
/// are allowed too. Braces are written twice. Values are escaped for the media type of the new
/// body, which is JSON, XML, HTML, a form or plain text: they never become syntax.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct BodyTemplates {
    /// The new body of requests. A request with a body of another format than the text reads gets
    /// 415; one without a body passes unchanged if the text reads it.
    request: Option<BodyTemplate>,
    /// The new body of responses with a status of 2xx. Responses of another format than the text
    /// reads pass unchanged.
    response: Option<BodyTemplate>,
    /// The largest body, also when it is decoded, and the largest new body.
    #[setting(default = "1MiB", range = "1B"..="64MiB")]
    max_size: Size,
    /// The media types that are JSON.
    #[setting(default = ["application/json", "text/json", "*+json"])]
    types: Vec<MediaPattern>,
}

/// A text for one direction.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_template)]
struct BodyTemplate {
    /// The text. In JSON, a value outside of quotes is a JSON value: a text of its own quotes, and
    /// `null` if it is missing; inside of quotes it is a part of the string.
    #[setting(example = r#"{{"name": {json /user/name}, "from": "edge {client_ip}"}}"#)]
    body: BodyText,
    /// The media type of the new body.
    #[setting(default = "application/json", example = "application/xml")]
    content_type: String,
}

fn check_template(settings: &BodyTemplate, node: &Node, reader: &mut Reader<'_>) {
    let at = |key| node.get(key).unwrap_or(node).span;
    let media_type = settings.content_type.split(';').next().unwrap_or_default();
    let is_header = settings.content_type.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    match media_type.trim_end().parse() {
        Ok(MediaPattern::Exactly(_)) if is_header => {}
        _ => {
            let why = format!("\"{}\" is not a media type: write text/html", settings.content_type);
            reader.error(at("content_type"), why);
        }
    }
    let format = Format::of(&settings.content_type);
    let text = &settings.body;
    if let Err(why) = text.input().and_then(|_| text.compile(format)) {
        reader.error(at("body"), format!("the text {why}"));
    }
}

fn check(settings: &BodyTemplates, node: &Node, reader: &mut Reader<'_>) {
    if settings.request.is_none() && settings.response.is_none() {
        reader.error(node.span, "this replaces nothing: give request or response");
    }
    if settings.types.is_empty() {
        let span = node.get("types").unwrap_or(node).span;
        reader.error(span, "without types no body is JSON");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let BodyTemplates { request, response, max_size, types } = BodyTemplates::read(node, reader)?;
    let compile = |template: Option<BodyTemplate>| match template {
        None => Some(None),
        Some(BodyTemplate { body, content_type }) => Some(Some(CompiledTemplate {
            input: body.input().ok()?,
            text: Arc::new(body.compile(Format::of(&content_type)).ok()?),
            content_type,
        })),
    };
    Some(Arc::new(TemplatePlan(Arc::new(Compiled {
        request: compile(request)?,
        response: compile(response)?,
        max: max_size.bytes(),
        types,
        form: vec!["application/x-www-form-urlencoded".parse().ok()?],
    }))))
}

struct TemplatePlan(Arc<Compiled>);

struct Compiled {
    request: Option<CompiledTemplate>,
    response: Option<CompiledTemplate>,
    max: u64,
    types: Vec<MediaPattern>,
    form: Vec<MediaPattern>,
}

struct CompiledTemplate {
    input: Input,
    text: Arc<CompiledText>,
    content_type: String,
}

impl FilterPlan for TemplatePlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let rejected = Rejections::new(worker, KIND.name, &REASONS);
        Stage::Filter(Rc::new(TemplateFilter { settings: self.0.clone(), rejected }))
    }

    /// A response is made when its request has been authenticated.
    fn needs_authentication(&self) -> bool {
        self.0.request.as_ref().is_some_and(|template| template.text.needs_authentication())
    }

    fn describe(&self) -> String {
        let sides = [("request", &self.0.request), ("response", &self.0.response)];
        let given = sides.into_iter().filter_map(|(side, template)| {
            Some(format!("{side} {}", template.as_ref()?.content_type))
        });
        given.collect::<Vec<_>>().join(", ")
    }
}

/// Why requests are rejected.
const REASONS: [&str; 4] = ["too_large", "content_type", "content_coding", "invalid"];

struct TemplateFilter {
    settings: Arc<Compiled>,
    rejected: Rejections,
}

impl Compiled {
    /// True if the old body has the format that the template reads.
    fn reads(&self, template: &CompiledTemplate, headers: &message::Headers) -> bool {
        template.input == Input::Unread || has_type(headers, self.types_of(template))
    }

    /// The media types of the old bodies that the template reads.
    fn types_of(&self, template: &CompiledTemplate) -> &[MediaPattern] {
        match template.input {
            Input::Unread => &[],
            Input::Json => &self.types,
            Input::Form => &self.form,
        }
    }
}

impl CompiledTemplate {
    /// The new body. A large old one is read on the blocking pool.
    async fn fill(&self, content: Bytes, request: &Request, max: u64) -> Result<Bytes, FillError> {
        let values = self.text.variables(request);
        let input = self.input;
        let (text, length) = (self.text.clone(), content.len());
        let fill = move || text.fill(input, &content, &values, max);
        let filled = on_worker_or_pool(length, fill).await;
        let filled =
            filled.unwrap_or_else(|| Err(FillError::Invalid("not read: aborted".to_owned())));
        filled.map(Bytes::from)
    }
}

impl TemplateFilter {
    async fn replace_request(
        &self,
        template: &CompiledTemplate,
        request: &mut Request,
    ) -> Result<(), Fault> {
        let rejected = |error: ContentError| {
            self.rejected.count(error.reason());
            error.of_request()
        };
        let content = match template.input {
            Input::Unread => Bytes::new(),
            Input::Json | Input::Form => {
                let types = self.settings.types_of(template);
                let content = take_request(request, types, self.settings.max).await;
                let content = content.map_err(rejected)?;
                if content.is_empty() {
                    return Ok(());
                }
                content
            }
        };
        let filled = template.fill(content, request, self.settings.max).await;
        let filled = filled.map_err(|error| match error {
            FillError::TooLarge => rejected(ContentError::TooLarge),
            FillError::Invalid(why) => {
                self.rejected.count("invalid");
                Fault::new(FaultKind::InvalidContent, format!("the request body is {why}"))
            }
        })?;
        forget_encoding(&mut request.headers);
        request.headers.set(Known::ContentType, &*template.content_type);
        request.body = Body::from(filled);
        Ok(())
    }

    async fn replace_response(
        &self,
        template: &CompiledTemplate,
        request: &Request,
        response: &mut Response,
    ) -> Result<(), Fault> {
        let max = self.settings.max;
        let content = match template.input {
            Input::Unread => Bytes::new(),
            Input::Json | Input::Form => {
                let content = take(&response.headers, &mut response.body, max).await;
                let content = content.map_err(ContentError::of_response)?;
                if content.is_empty() {
                    mark_changed(&mut response.headers);
                    return Ok(());
                }
                content
            }
        };
        let filled = template.fill(content, request, max).await.map_err(|error| match error {
            FillError::TooLarge => ContentError::TooLarge.of_response(),
            FillError::Invalid(why) => {
                Fault::new(FaultKind::ProtocolError, format!("the response body is {why}"))
            }
        })?;
        mark_changed(&mut response.headers);
        response.headers.set(Known::ContentType, &*template.content_type);
        response.body = Body::from(filled);
        Ok(())
    }
}

impl Filter for TemplateFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let settings = &*self.settings;
        if settings.response.is_some() {
            // A template reads a whole document.
            request.headers.remove(Known::Range);
        }
        let Some(template) = &settings.request else { return Step::Continue.into() };
        if template.input != Input::Unread && request.body.is_empty() {
            return Step::Continue.into();
        }
        MaybeFuture::of(async move {
            let replaced = self.replace_request(template, request).await;
            replaced.map_or_else(Step::Fail, |()| Step::Continue)
        })
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        let settings = &*self.settings;
        // 204, 205 and 206 have no content, or a part of it.
        let is_whole = matches!(response.status, 200..=203 | 207..=299);
        let template = settings.response.as_ref().filter(|_| is_whole);
        let Some(template) = template.filter(|template| {
            response.takeover.is_none() && settings.reads(template, &response.headers)
        }) else {
            return Step::Continue.into();
        };
        let is_head = request.method == Method::Head;
        if is_head || (template.input != Input::Unread && response.body.is_empty()) {
            // The length that GET would have is not known (RFC 9110 9.3.2), but its type is.
            mark_changed(&mut response.headers);
            if is_head {
                response.headers.set(Known::ContentType, &*template.content_type);
            }
            return Step::Continue.into();
        }
        MaybeFuture::of(async move {
            let replaced = self.replace_response(template, request, response).await;
            replaced.map_or_else(Step::Fail, |()| Step::Continue)
        })
    }
}

#[cfg(test)]
mod tests;
