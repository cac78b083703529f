//! The configuration over HTTP: read it, replace it, go back.
//!
//! The version is a strong ETag (RFC 9110 section 8.8.3). A change without If-Match is refused with
//! 428 (RFC 6585 section 3), so that no client overwrites a version that it has not seen.

use crate::access::{Access, Caller};
use crate::control::{
    Applied, ConfigDocument, ConfigDocuments, ConfigVersion, Control, Expect, Refusal, Syntax,
};
use crate::endpoints;
use crate::limits::{CONFIG_BYTES, REQUEST_BYTES};
use crate::messages::{ApiResult, body_text, json_response, time};
use crate::problem::{Problem, pretty};
use config::NewConfig;
use message::{Request, Response};
use serde_json::{Value as Json, json};
use settings::Report;
use std::collections::BTreeMap;
use wire::conditional::{self, EntityTag, Preconditions, Validators};
use wire::{Known, token};

/// The parameter for a configuration that is a set of documents.
const DOCUMENTS: &str = "documents";
const DOCUMENTS_ADVICE: &str = "send an object of texts by name, as GET /v1/config?documents has \
                                it: {\"main.yaml\": \"…\", \"routes/shop.yaml\": \"…\"}; parts of \
                                names are not empty and do not begin with a dot";
/// Bytes of the name of a document, which is part of a key.
const NAME_BYTES: usize = 255;

pub(crate) fn get(
    access: &Access,
    caller: &Caller,
    control: &dyn Control,
    request: &Request,
) -> ApiResult {
    let shows_secrets = endpoints::flag(request.target.query(), "secrets");
    if shows_secrets {
        access.check_secrets(caller)?;
    }
    let unknown_secrets = || {
        let why = "the configuration has errors, so that it is not known where its secrets are";
        Problem::new(409, why).advice("`?secrets` shows it as it is")
    };
    let document = match (endpoints::flag(request.target.query(), DOCUMENTS), shows_secrets) {
        (false, true) => control.config(),
        (false, false) => {
            let text = control.masked_config().ok_or_else(unknown_secrets)?;
            ConfigDocument { text, ..control.config() }
        }
        (true, _) => {
            let ConfigDocuments { mut texts, version } = control.documents()?;
            if !shows_secrets {
                texts = control.masked_documents().ok_or_else(unknown_secrets)?;
            }
            let (text, syntax) = (pretty(&json!(texts)), Syntax::Json);
            // What makes the main document read-only: that there are several.
            ConfigDocument { text, syntax, version, read_only: None, ..control.config() }
        }
    };
    Ok(answer(&document, request))
}

fn answer(document: &ConfigDocument, request: &Request) -> Response {
    let tag = format!("\"{}\"", document.version);
    let if_none_match = request.headers.joined(Known::IfNoneMatch);
    let requested =
        Preconditions { if_none_match: if_none_match.as_deref(), ..Preconditions::default() };
    let etag = EntityTag::parse(tag.as_bytes());
    let have = Validators { exists: true, etag, last_modified: None };
    let mut response = match conditional::evaluate(&request.method, &requested, &have) {
        conditional::PreconditionResult::NotModified => Response::new(304),
        _ => Response::with_body(200, document.syntax.media_type(), document.text.clone()),
    };
    response.headers.append(Known::Etag, &tag);
    // Revalidated on each use; the entity tag avoids a transfer.
    response.headers.append(Known::CacheControl, "private, no-cache");
    if let Some(why) = &document.read_only {
        response.headers.append("tidegate-read-only", why);
    }
    response
}

/// The JSON Schema of the configuration.
pub(crate) fn schema() -> Response {
    Response::json(200, config::schema().to_string())
}

pub(crate) fn history(versions: &[ConfigVersion]) -> Response {
    let rows: Vec<Json> = versions
        .iter()
        .map(|version| {
            json!({
                "version": version.version,
                "at": time(version.at_ms),
                "current": version.current,
            })
        })
        .collect();
    json_response(200, &json!({ "versions": rows }))
}

pub(crate) async fn put(control: &dyn Control, request: &mut Request) -> ApiResult {
    syntax(request)?;
    let Some(expect) = expect(request)? else {
        return Err(Problem::new(428, "a change needs If-Match with the version it replaces")
            .advice(
                "send the ETag of GET /v1/config, or `If-Match: *` to replace whatever is there",
            ));
    };
    let new = new_config(request).await?;
    applied(control.apply(new, expect).await)
}

/// Checks a configuration without putting it into use.
pub(crate) async fn check(control: &dyn Control, request: &mut Request) -> ApiResult {
    let new = new_config(request).await?;
    let changes = control.check(new).await?;
    Ok(json_response(200, &json!({ "changes": changes })))
}

/// The body: a configuration, or with `?documents` the documents of one.
async fn new_config(request: &mut Request) -> Result<NewConfig, Problem> {
    let syntax = syntax(request)?;
    let is_set = endpoints::flag(request.target.query(), DOCUMENTS);
    if is_set && syntax != Syntax::Json {
        return Err(Problem::new(415, "documents are sent as JSON").advice(DOCUMENTS_ADVICE));
    }
    let text = body_text(request, CONFIG_BYTES).await?;
    if syntax == Syntax::Yaml {
        return Ok(NewConfig::Main(text));
    }
    let value: Json = serde_json::from_str(&text).map_err(|error| not_json(&error))?;
    match is_set {
        true => documents(value).map(NewConfig::Documents),
        // JSON is read as the YAML that it is, whose errors speak of things that JSON has not.
        false => Ok(NewConfig::Main(text)),
    }
}

/// Reads the texts of documents by name; the problem names every one that cannot be used.
fn documents(value: Json) -> Result<BTreeMap<String, String>, Problem> {
    let Json::Object(members) = value else {
        return Err(Problem::new(422, "the body must be a JSON object").advice(DOCUMENTS_ADVICE));
    };
    if members.is_empty() {
        let why = "the body has no documents: a server without a configuration serves nothing";
        return Err(Problem::new(422, why).advice(DOCUMENTS_ADVICE));
    }
    let (mut texts, mut wrong) = (BTreeMap::new(), Vec::new());
    for (name, value) in members {
        match value {
            Json::String(text) if is_document_name(&name) => drop(texts.insert(name, text)),
            Json::String(_) => wrong.push((name, "this cannot be the name of a document")),
            _ => wrong.push((name, "the document is not text")),
        }
    }
    if wrong.is_empty() {
        return Ok(texts);
    }
    let rows: Vec<Json> = wrong
        .into_iter()
        .map(|(name, message)| json!({ "file": name, "message": message }))
        .collect();
    let detail = format!("{} of the documents cannot be used; nothing has changed", rows.len());
    Err(Problem::new(422, detail).member("errors", json!(rows)).advice(DOCUMENTS_ADVICE))
}

/// True for a name that `ctl apply` could have read from a directory.
fn is_document_name(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.');
    name.len() <= NAME_BYTES && !name.contains(char::is_control) && name.split('/').all(is_part)
}

pub(crate) async fn rollback(control: &dyn Control, request: &mut Request) -> ApiResult {
    let expect = expect(request)?.unwrap_or(Expect::Any);
    let text = body_text(request, REQUEST_BYTES).await?;
    let body: Json = serde_json::from_str(&text)
        .map_err(|e| Problem::new(400, format!("the body is not JSON: {e}")))?;
    let Some(version) = body.get("version").and_then(Json::as_str) else {
        return Err(Problem::new(400, "the body must be {\"version\": \"…\"}")
            .advice("GET /v1/config/history lists the versions"));
    };
    applied(control.rollback(version.to_owned(), expect).await)
}

/// Responds to a change, for every kind of request.
pub(crate) fn applied(result: Result<Applied, Refusal>) -> ApiResult {
    let applied = result?;
    let body = json!({ "version": applied.version, "changes": applied.changes });
    let mut response = json_response(200, &body);
    response.headers.append(Known::Etag, format!("\"{}\"", applied.version));
    Ok(response)
}

/// All errors at once, each with its place, and as text with excerpts.
pub(crate) fn errors(report: &Report) -> Problem {
    let rows: Vec<Json> = report
        .errors()
        .iter()
        .map(|error| {
            let file = report.file(error.span);
            json!({
                "file": file,
                "line": file.map(|_| error.span.line),
                "column": file.map(|_| error.span.column),
                "message": error.message,
                "help": error.help,
            })
        })
        .collect();
    let detail = match report.len() {
        1 => "the configuration has an error; the previous one stays in use".to_owned(),
        n => format!("the configuration has {n} errors; the previous one stays in use"),
    };
    Problem::new(422, detail)
        .member("errors", Json::Array(rows))
        .member("text", json!(report.render()))
}

fn not_json(error: &serde_json::Error) -> Problem {
    // The place is in members of its own.
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let place = json!({
        "line": error.line(),
        "column": error.column(),
        "message": message,
    });
    Problem::new(422, format!("the body is not JSON: {error}")).member("errors", json!([place]))
}

fn syntax(request: &Request) -> Result<Syntax, Problem> {
    // RFC 9512 section 2.1
    const YAML: [&str; 4] = ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"];
    let value = request.headers.get_str(Known::ContentType).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    if YAML.iter().any(|yaml| media_type.eq_ignore_ascii_case(yaml)) {
        return Ok(Syntax::Yaml);
    }
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(Syntax::Json);
    }
    let detail = match media_type {
        "" => "the body has no Content-Type".to_owned(),
        typed => format!("a configuration cannot be \"{typed}\""),
    };
    Err(Problem::new(415, detail).advice("send Content-Type: application/yaml or application/json"))
}

/// Parses If-Match; `None` without the field.
pub(crate) fn expect(request: &Request) -> Result<Option<Expect>, Problem> {
    let Some(value) = request.headers.joined(Known::IfMatch) else { return Ok(None) };
    let mut tags = token::list(&value).peekable();
    if tags.peek().is_none() {
        return Err(Problem::new(400, "If-Match names no entity tag")
            .advice("send the ETag of GET /v1/config as it was"));
    }
    let mut versions = Vec::new();
    for tag in tags {
        if tag == b"*" {
            return Ok(Some(Expect::Any));
        }
        versions.extend(version(tag));
    }
    Ok(Some(Expect::OneOf(versions)))
}

/// The version inside an entity tag; none in a weak one, which never matches here (RFC 9110
/// section 13.1.1). Quotes left out are forgiven: versions have no characters that could be
/// misread.
fn version(tag: &[u8]) -> Option<String> {
    let inner = match EntityTag::parse(tag) {
        Some(tag) if tag.weak => return None,
        Some(tag) => tag.opaque,
        None => tag,
    };
    Some(String::from_utf8_lossy(inner).into_owned())
}
