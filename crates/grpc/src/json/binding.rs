//! Bindings of HTTP requests to methods: the rules of `google.api.http`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::prost::Message;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, FieldDescriptor, MethodDescriptor, Value,
};
use serde_json::{Map, Value as Json};

use super::fields::FieldPath;
use super::template::Template;
use message::Request;

/// The extension of method options with the rule.
const HTTP_RULE: &str = "google.api.http";
/// The message that is any content with its media type.
const HTTP_BODY: &str = "google.api.HttpBody";

/// One way to call a method.
#[derive(Debug)]
pub(super) struct Binding {
    /// The HTTP method; `*` for all.
    verb: String,
    template: Template,
    /// The fields of the template's variables.
    captured: Vec<FieldPath>,
    body: BodyField,
    /// The content of a request is a `google.api.HttpBody`.
    pub(super) takes_any_content: bool,
    /// The same of a response.
    pub(super) gives_any_content: bool,
    /// The field that is all of the response.
    pub(super) response_field: Option<FieldDescriptor>,
    pub(super) method: MethodDescriptor,
    /// The path of the call.
    pub(super) path: String,
}

/// The field that the request's content is read into.
#[derive(Clone, Debug)]
enum BodyField {
    None,
    All,
    Field(FieldPath),
}

/// What a client may leave out or add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leniency {
    pub(super) unknown_fields: bool,
}

/// The bindings of all methods of these services, or of all services that have rules; the more
/// exact ones first.
pub(super) fn bindings(
    pool: &DescriptorPool,
    services: &[String],
    by_name: bool,
) -> Result<Vec<Binding>, String> {
    let rule = pool.get_extension_by_name(HTTP_RULE);
    let mut found = Vec::new();
    for service in pool.services() {
        if !services.is_empty() && !services.iter().any(|name| name == service.full_name()) {
            continue;
        }
        for method in service.methods() {
            let options = method.options();
            if let Some(rule) = &rule
                && options.has_extension(rule)
                && let Value::Message(rule) = &*options.get_extension(rule)
            {
                add_rules(rule, &method, &mut found)?;
            }
            if by_name {
                found.push(Binding::by_name(&method)?);
            }
        }
    }
    found.sort_by(|one, two| one.template.by_exactness(&two.template));
    if found.is_empty() {
        return Err(match rule {
            None => {
                format!("the file does not contain {HTTP_RULE}: protoc needs --include_imports")
            }
            Some(_) => format!("no method has the option {HTTP_RULE}"),
        });
    }
    for (at, one) in found.iter().enumerate() {
        let same = found[at + 1..]
            .iter()
            .find(|other| one.verb == other.verb && one.template.is_same_pattern(&other.template));
        if let Some(other) = same {
            let (one, other) = (one.method.full_name(), other.method.full_name());
            return Err(format!("{one} and {other} have the same path"));
        }
    }
    Ok(found)
}

fn add_rules(
    rule: &DynamicMessage,
    method: &MethodDescriptor,
    found: &mut Vec<Binding>,
) -> Result<(), String> {
    found.push(Binding::of_rule(rule, method)?);
    if let Some(more) = rule.get_field_by_name("additional_bindings") {
        for rule in more.as_list().unwrap_or_default().iter().filter_map(Value::as_message) {
            found.push(Binding::of_rule(rule, method)?);
        }
    }
    Ok(())
}

/// A field of a rule that is a text, unless it is empty.
fn text(rule: &DynamicMessage, name: &str) -> Option<String> {
    let value = rule.get_field_by_name(name)?;
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The HTTP method and the path template of a rule.
fn pattern(rule: &DynamicMessage) -> Option<(String, String)> {
    for verb in ["get", "put", "post", "delete", "patch"] {
        if let Some(template) = text(rule, verb) {
            return Some((verb.to_ascii_uppercase(), template));
        }
    }
    let custom = rule.get_field_by_name("custom")?;
    let custom = custom.as_message()?;
    Some((text(custom, "kind")?, text(custom, "path")?))
}

impl Binding {
    fn of_rule(rule: &DynamicMessage, method: &MethodDescriptor) -> Result<Binding, String> {
        let of_method = |why: String| format!("{}: {why}", method.full_name());
        let (verb, template) =
            pattern(rule).ok_or_else(|| of_method("its rule has no path".to_owned()))?;
        let template = Template::parse(&template).map_err(of_method)?;
        let input = method.input();
        let captured = template.fields().map(|names| {
            let path = FieldPath::find(&input, names)?;
            match path.is_list() {
                true => Err(format!("{names} is repeated and cannot be part of a path")),
                false => Ok(path),
            }
        });
        let captured = captured.collect::<Result<Vec<_>, _>>().map_err(of_method)?;
        let body = match text(rule, "body").as_deref() {
            None => BodyField::None,
            Some("*") => BodyField::All,
            Some(name) => BodyField::Field(FieldPath::find(&input, name).map_err(of_method)?),
        };
        let response_field = match text(rule, "response_body") {
            None => None,
            Some(name) => Some(
                method
                    .output()
                    .get_field_by_name(&name)
                    .ok_or_else(|| of_method(format!("its response has no field {name}")))?,
            ),
        };
        let path = call_path(method);
        let takes_any_content = match &body {
            BodyField::None => false,
            BodyField::All => input.full_name() == HTTP_BODY,
            BodyField::Field(field) => field.last().is_some_and(is_http_body),
        };
        let gives_any_content = match &response_field {
            None => method.output().full_name() == HTTP_BODY,
            Some(field) => is_http_body(field),
        };
        let method = method.clone();
        Ok(Binding {
            verb,
            template,
            captured,
            body,
            takes_any_content,
            gives_any_content,
            response_field,
            method,
            path,
        })
    }

    /// The binding of a method without a rule: its name is the path, the content its message.
    fn by_name(method: &MethodDescriptor) -> Result<Binding, String> {
        let path = call_path(method);
        Ok(Binding {
            verb: "POST".to_owned(),
            template: Template::parse(&path)?,
            captured: Vec::new(),
            body: BodyField::All,
            takes_any_content: method.input().full_name() == HTTP_BODY,
            gives_any_content: method.output().full_name() == HTTP_BODY,
            response_field: None,
            method: method.clone(),
            path,
        })
    }

    /// The values in the path, if the request's path matches.
    pub(super) fn captures(&self, request: &Request) -> Option<Vec<String>> {
        self.template.captures(request.target.path())
    }

    /// True if it is for the request's method.
    pub(super) fn has_verb(&self, request: &Request) -> bool {
        self.verb == "*" || self.verb.as_bytes() == request.method.as_bytes()
    }

    pub(super) fn verb(&self) -> &str {
        &self.verb
    }

    /// The message of a request, encoded: its content, then what the path and the query set. The
    /// error is for the client.
    pub(super) fn encode(
        &self,
        content: &[u8],
        media_type: &str,
        captures: &[String],
        query: Option<&[u8]>,
        lenient: Leniency,
    ) -> Result<Vec<u8>, String> {
        let content = match content.trim_ascii() {
            _ if self.takes_any_content => Some(http_body(content, media_type)),
            [] => None,
            content => Some(
                serde_json::from_slice(content).map_err(|error| format!("not JSON: {error}"))?,
            ),
        };
        let json = self.json(content, captures, query, lenient)?;
        let options = DeserializeOptions::new().deny_unknown_fields(!lenient.unknown_fields);
        let input = self.method.input();
        let message = DynamicMessage::deserialize_with_options(input, json, &options);
        Ok(message.map_err(|error| error.to_string())?.encode_to_vec())
    }

    fn json(
        &self,
        content: Option<Json>,
        captures: &[String],
        query: Option<&[u8]>,
        lenient: Leniency,
    ) -> Result<Json, String> {
        let mut root = Map::new();
        match (&self.body, content) {
            (BodyField::None, Some(_)) => return Err("this path takes no content".to_owned()),
            (BodyField::All, Some(Json::Object(content))) => root = content,
            // Such as a list for google.protobuf.ListValue.
            (BodyField::All, Some(content)) if captures.is_empty() => return Ok(content),
            (BodyField::All, Some(_)) => return Err("the content is not a JSON object".to_owned()),
            (BodyField::Field(field), Some(content)) => field.replace(&mut root, content)?,
            (_, None) => {}
        }
        // With `body: "*"` the query belongs to no field.
        if let (Some(query), false) = (query, matches!(self.body, BodyField::All)) {
            self.add_query(query, &mut root, lenient)?;
        }
        // Last: what the path says holds, whatever the content says.
        for (field, text) in self.captured.iter().zip(captures) {
            field.insert(&mut root, field.value(text)?)?;
        }
        Ok(Json::Object(root))
    }

    fn add_query(
        &self,
        query: &[u8],
        root: &mut Map<String, Json>,
        lenient: Leniency,
    ) -> Result<(), String> {
        for (name, value) in wire::target::query_pairs(query) {
            let (name, value) = (utf8(&name)?, utf8(&value)?);
            let field = match FieldPath::find(&self.method.input(), name) {
                Ok(field) => field,
                Err(_) if lenient.unknown_fields => continue,
                Err(why) => return Err(why),
            };
            let of_body = match &self.body {
                BodyField::Field(body) => body.overlaps(&field),
                BodyField::None | BodyField::All => false,
            };
            if of_body || self.captured.iter().any(|captured| captured.overlaps(&field)) {
                return Err(format!("{name} cannot be part of the query"));
            }
            field.insert(root, field.value(value)?)?;
        }
        Ok(())
    }
}

/// A `google.api.HttpBody` as JSON.
fn http_body(content: &[u8], media_type: &str) -> Json {
    let text = |text: &str| Json::String(text.to_owned());
    let data = Json::String(STANDARD.encode(content));
    let fields = [("contentType", text(media_type)), ("data", data)];
    Json::Object(fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
}

fn is_http_body(field: &FieldDescriptor) -> bool {
    let kind = field.kind();
    !field.is_list() && kind.as_message().is_some_and(|kind| kind.full_name() == HTTP_BODY)
}

fn utf8(text: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(text).map_err(|_| "the query is not UTF-8".to_owned())
}

fn call_path(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}
