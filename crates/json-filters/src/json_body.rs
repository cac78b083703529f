//! `json_body`: edits of JSON bodies by JSON Pointer.
//!
//! Promises that a body of a JSON type is edited or rejected, never forwarded unedited: a body that
//! is too large, in an unknown content coding or not JSON gets 413, 415 or 400 as a request, and
//! 502 as a response. An operation on a field that must not leave the server can rely on it.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use message::{Body, Fault, FaultKind, Request, Response};
use plugin::{
    Filter, FilterKind, FilterPlan, HeaderName, MaybeFuture, MediaPattern, Stage, Step,
    WorkerContext, remove_headers,
};
use settings::{Node, Reader, Setting, Size};
use wire::{Known, Method};

use crate::content::{
    ContentError, Rejections, forget_encoding, has_type, mark_changed, on_worker_or_pool, take,
    take_request,
};
use crate::edit;
use crate::pointer::Pointer;
use crate::tree::{self, Json};
use body_headers::BodyHeaders;
use value::ValueTemplate;

mod body_headers;
mod value;

pub(crate) const KIND: FilterKind =
    FilterKind { name: "json_body", schema: JsonBody::schema, read };

/// Edits JSON bodies of requests and responses by JSON Pointer (RFC 6901).
///
/// Operations are those of JSON Patch (RFC 6902): add, replace, remove, copy; in the order of the
/// list. One whose target does not exist changes nothing. Bodies of other media types pass
/// unchanged. A request that is larger than `max_size` gets 413, one that is not JSON 400; such a
/// response becomes 502. Compressed bodies are decoded and forwarded uncompressed.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct JsonBody {
    /// Operations on request bodies.
    #[setting(default = [], example = [{ "add": "/client", "value": "{client_ip}" }])]
    request: Vec<Operation>,
    /// Headers of the request from values of its body, before the operations: the name, then where
    /// the value is. Lists and objects become JSON. A client's own header of such a name is always
    /// removed, also where the body is of another type or has no such value. A value of more than 4
    /// KiB or with control characters is an error: 400.
    #[setting(default = {}, example = { "x-tenant": "/tenant/id" })]
    headers: BodyHeaders,
    /// Operations on response bodies.
    #[setting(default = [], example = [{ "remove": "/internal" }])]
    response: Vec<Operation>,
    /// The largest body, also when it is decoded and after each `copy`.
    #[setting(default = "1MiB", range = "1B"..="64MiB")]
    max_size: Size,
    /// The media types that are JSON.
    #[setting(default = ["application/json", "text/json", "*+json"])]
    types: Vec<MediaPattern>,
}

/// One operation: exactly one of `add`, `replace`, `remove` and `copy`.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_operation)]
struct Operation {
    /// Adds `value` as a member, or inserts it into an array; `-` is the end of an array.
    add: Option<Pointer>,
    /// Replaces the value at this place by `value`, if there is one; an empty text is the whole
    /// body.
    replace: Option<Pointer>,
    /// Removes the value at this place.
    remove: Option<Pointer>,
    /// Copies the value at `from` to this place.
    copy: Option<Pointer>,
    /// Where `copy` takes the value from.
    from: Option<Pointer>,
    /// Any value; texts may hold variables of the request.
    value: ValueTemplate,
}

fn check_operation(operation: &Operation, node: &Node, reader: &mut Reader<'_>) {
    let Operation { add, replace, remove, copy, from, value } = operation;
    let given = [add, replace, remove, copy].into_iter().filter(|pointer| pointer.is_some());
    if given.count() != 1 {
        reader.error(node.span, "an operation is one of add, replace, remove and copy");
    } else if (add.is_some() || replace.is_some()) != value.is_given() {
        reader.error(node.span, "add and replace have a value, remove and copy have none");
    } else if copy.is_some() != from.is_some() {
        reader.error(node.span, "copy has from, the other operations have not");
    } else if remove.as_ref().is_some_and(Pointer::is_whole_document) {
        reader.error(node.span, "the whole body cannot be removed");
    }
}

fn check(settings: &JsonBody, node: &Node, reader: &mut Reader<'_>) {
    let JsonBody { request, headers, response, .. } = settings;
    // A value that cannot be read is an error already.
    if request.is_empty()
        && response.is_empty()
        && headers.is_empty()
        && node.get("headers").is_none()
    {
        reader.error(node.span, "this edits nothing: give request, headers or response");
    }
    if settings.types.is_empty() {
        let span = node.get("types").unwrap_or(node).span;
        reader.error(span, "without types no body is edited");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(JsonBodyPlan(Arc::new(JsonBody::read(node, reader)?))))
}

struct JsonBodyPlan(Arc<JsonBody>);

impl FilterPlan for JsonBodyPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let rejected = Rejections::new(worker, KIND.name, &REASONS);
        let headers = self.0.headers.names().cloned().collect();
        Stage::Filter(Rc::new(JsonBodyFilter { settings: self.0.clone(), headers, rejected }))
    }

    /// A response is edited when its request has been authenticated.
    fn needs_authentication(&self) -> bool {
        self.0.request.iter().any(|operation| operation.value.needs_authentication())
    }

    fn describe(&self) -> String {
        let show = |operations: &[Operation]| {
            let words = operations.iter().map(Operation::describe);
            words.collect::<Vec<_>>().join(" ")
        };
        let JsonBody { request, headers, response, .. } = &*self.0;
        let headers: Vec<&str> = headers.names().map(HeaderName::as_str).collect();
        let parts = [
            ("request ", show(request)),
            ("headers ", headers.join(" ")),
            ("response ", show(response)),
        ];
        let given = parts.iter().filter(|(_, what)| !what.is_empty());
        given.map(|(name, what)| name.to_string() + what).collect::<Vec<_>>().join(", ")
    }
}

impl Operation {
    fn describe(&self) -> String {
        let signs =
            [("+", &self.add), ("=", &self.replace), ("-", &self.remove), ("+", &self.copy)];
        let given =
            signs.into_iter().find_map(|(sign, at)| Some(format!("{sign}{}", at.as_ref()?)));
        given.unwrap_or_default()
    }

    fn apply(&self, document: &mut Json<'_>, value: Json<'static>) {
        let Operation { add, replace, remove, copy, from, value: _ } = self;
        if let Some(at) = add {
            edit::add(document, at, value);
        } else if let Some(at) = replace {
            edit::replace(document, at, value);
        } else if let Some(at) = remove {
            edit::remove(document, at);
        } else if let (Some(to), Some(from)) = (copy, from) {
            edit::copy(document, from, to);
        }
    }
}

/// Why requests are rejected.
const REASONS: [&str; 4] = ["too_large", "content_type", "content_coding", "invalid"];

struct JsonBodyFilter {
    settings: Arc<JsonBody>,
    /// The names of the headers that have values of the body, never the client's.
    headers: Rc<[HeaderName]>,
    rejected: Rejections,
}

impl JsonBodyFilter {
    async fn edit_request(&self, request: &mut Request) -> Result<(), Fault> {
        let JsonBody { types, max_size, .. } = &*self.settings;
        let content = take_request(request, types, max_size.bytes()).await;
        let content = content.map_err(|error| {
            self.rejected.count(error.reason());
            error.of_request()
        })?;
        if content.is_empty() {
            return Ok(());
        }
        let edited = edited(content, &self.settings, Side::Request, request).await?;
        let (body, values) = edited.map_err(|error| match error {
            EditError::TooLarge => {
                self.rejected.count(ContentError::TooLarge.reason());
                ContentError::TooLarge.of_request()
            }
            EditError::Invalid(why) => {
                self.rejected.count("invalid");
                Fault::new(FaultKind::InvalidContent, format!("the request body is {why}"))
            }
        })?;
        forget_encoding(&mut request.headers);
        self.settings.headers.set(values, &mut request.headers);
        request.body = Body::from(body);
        Ok(())
    }

    async fn edit_response(&self, request: &Request, response: &mut Response) -> Result<(), Fault> {
        let max = self.settings.max_size.bytes();
        let content = take(&response.headers, &mut response.body, max).await;
        let content = content.map_err(ContentError::of_response)?;
        if content.is_empty() {
            mark_changed(&mut response.headers);
            return Ok(());
        }
        let edited = edited(content, &self.settings, Side::Response, request).await?;
        let (body, _) = edited.map_err(|error| match error {
            EditError::TooLarge => ContentError::TooLarge.of_response(),
            EditError::Invalid(why) => {
                Fault::new(FaultKind::ProtocolError, format!("the response body is {why}"))
            }
        })?;
        mark_changed(&mut response.headers);
        response.body = Body::from(body);
        Ok(())
    }
}

/// The message whose body is edited.
#[derive(Clone, Copy)]
enum Side {
    Request,
    Response,
}

/// A body after all operations, and the values of the headers that it sets.
type Edited = (Bytes, Vec<Option<String>>);

/// Why a body is not edited.
enum EditError {
    /// What the body is instead of JSON that can be edited.
    Invalid(String),
    /// Copies of its values make it larger than `max_size`.
    TooLarge,
}

impl From<String> for EditError {
    fn from(why: String) -> EditError {
        EditError::Invalid(why)
    }
}

/// The edited body, or the reason why there is none. A large one is edited on the blocking pool; a
/// fault if that fails.
async fn edited(
    content: Bytes,
    settings: &Arc<JsonBody>,
    side: Side,
    request: &Request,
) -> Result<Result<Edited, EditError>, Fault> {
    let fill = |operation: &Operation| operation.value.fill(request);
    let values: Vec<_> = settings.operations(side).iter().map(fill).collect();
    let (settings, length) = (settings.clone(), content.len());
    let edit = move || edit_all(content, &settings, side, values);
    let edited = on_worker_or_pool(length, edit).await;
    edited.ok_or_else(|| Fault::internal("the edit of a body was aborted"))
}

impl JsonBody {
    fn operations(&self, side: Side) -> &[Operation] {
        match side {
            Side::Request => &self.request,
            Side::Response => &self.response,
        }
    }
}

fn edit_all(
    content: Bytes,
    settings: &JsonBody,
    side: Side,
    values: Vec<Json<'static>>,
) -> Result<Edited, EditError> {
    let mut document = tree::parse(&content).map_err(|error| error.to_string())?;
    let headers = match side {
        Side::Request => settings.headers.values(&document)?,
        Side::Response => Vec::new(),
    };
    let operations = settings.operations(side);
    if operations.is_empty() {
        drop(document);
        return Ok((content, headers));
    }
    for (operation, value) in operations.iter().zip(values) {
        // A copy of what contains it doubles a body, and the next one doubles that.
        let copied = operation.from.as_ref().and_then(|from| from.find(&document));
        if copied.is_some_and(|copied| {
            (copied.length() + document.length()) as u64 > settings.max_size.bytes()
        }) {
            return Err(EditError::TooLarge);
        }
        operation.apply(&mut document, value);
    }
    let mut out = String::with_capacity(content.len() + 64);
    document.write(&mut out);
    Ok((Bytes::from(out), headers))
}

impl Filter for JsonBodyFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let JsonBody { request: operations, headers, response, types, .. } = &*self.settings;
        remove_headers(request, &self.headers);
        if !response.is_empty() {
            // A part of a document cannot be edited.
            request.headers.remove(Known::Range);
        }
        let reads_body = !operations.is_empty() || !headers.is_empty();
        if !reads_body || request.body.is_empty() || !has_type(&request.headers, types) {
            return Step::Continue.into();
        }
        MaybeFuture::of(async move {
            self.edit_request(request).await.map_or_else(Step::Fail, |()| Step::Continue)
        })
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        let JsonBody { response: operations, types, .. } = &*self.settings;
        if operations.is_empty()
            || response.takeover.is_some()
            || !has_type(&response.headers, types)
        {
            return Step::Continue.into();
        }
        if request.method == Method::Head || response.body.is_empty() {
            // The length that GET would have is not known (RFC 9110 9.3.2).
            mark_changed(&mut response.headers);
            return Step::Continue.into();
        }
        MaybeFuture::of(async move {
            let edited = self.edit_response(request, response).await;
            edited.map_or_else(Step::Fail, |()| Step::Continue)
        })
    }
}

#[cfg(test)]
mod tests;
