//! `/v1/consumers`: the consumers in use, one at a time.
//!
//! The version of an entry is a strong ETag. Replacing and deleting need If-Match, so that no
//! client overwrites a version that it has not seen. Responses show keys as their SHA-256 and other
//! secrets masked.

use auth::ChangeError;
use message::{Request, Response};
use serde_json::{Value as Json, json};
use telemetry::event;
use telemetry::log::Level;
use wire::Known;

use crate::configuration::{errors, expect};
use crate::control::{Control, Expect};
use crate::limits::REQUEST_BYTES;
use crate::messages::{ApiResult, body_text, json_response, page_of};
use crate::problem::Problem;

pub(crate) fn all(control: &dyn Control, query: Option<&[u8]>) -> ApiResult {
    let (after, limit) = page_of(query)?;
    let names = control.consumers().names(&after, limit);
    let next = names.last().filter(|_| names.len() == limit).cloned();
    let mut body = json!({ "consumers": names });
    if let Some(next) = next {
        body["next"] = json!(next);
    }
    Ok(json_response(200, &body))
}

pub(crate) fn one(control: &dyn Control, name: &str) -> ApiResult {
    let (entry, version) = control.consumers().get(name).ok_or_else(|| missing(name))?;
    Ok(tagged(json_response(200, &entry), &version))
}

pub(crate) async fn put(control: &dyn Control, name: &str, request: &mut Request) -> ApiResult {
    let expected = expect(request)?;
    let text = body_text(request, REQUEST_BYTES).await?;
    let mut entry: Json = serde_json::from_str(&text)
        .map_err(|error| Problem::new(422, format!("the body is not JSON: {error}")))?;
    let Json::Object(members) = &mut entry else {
        return Err(Problem::new(422, "a consumer is an object"));
    };
    match members.get("name") {
        None => {
            members.insert("name".to_owned(), json!(name));
        }
        Some(written) if written == name => {}
        Some(_) => return Err(Problem::new(422, "the body names another consumer than the path")),
    }
    let settings = config::read_consumer(&entry.to_string()).map_err(|report| errors(&report))?;
    let (consumers, expect) = (control.consumers(), expected.clone());
    let (version, is_new) =
        stored(move || consumers.put(settings, |current| allows(expect.as_ref(), current)))
            .await
            .map_err(|why| refused(name, why, &expected))?;
    event!(Level::Info, "consumer changed", consumer = name, by = "admin API");
    let body = json!({ "version": version });
    Ok(tagged(json_response(if is_new { 201 } else { 200 }, &body), &version))
}

pub(crate) async fn delete(control: &dyn Control, name: &str, request: &Request) -> ApiResult {
    let expected = expect(request)?;
    let (consumers, expect, owned) = (control.consumers(), expected.clone(), name.to_owned());
    stored(move || consumers.delete(&owned, |current| allows(expect.as_ref(), current)))
        .await
        .map_err(|why| refused(name, why, &expected))?;
    event!(Level::Info, "consumer deleted", consumer = name, by = "admin API");
    Ok(Response::new(204))
}

/// Makes a change on another thread, because it may wait for the disk.
async fn stored<T: Send + 'static>(
    change: impl FnOnce() -> Result<T, ChangeError> + Send + 'static,
) -> Result<T, ChangeError> {
    let changed = net::blocking(change).await;
    changed.unwrap_or_else(|error| Err(ChangeError::NotStored(error.to_string())))
}

/// A new entry needs no If-Match; one that is replaced needs its version.
fn allows(expected: Option<&Expect>, current: Option<&str>) -> bool {
    match (expected, current) {
        (None, None) => true,
        (Some(expected), Some(current)) => expected.allows(current),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn refused(name: &str, why: ChangeError, expected: &Option<Expect>) -> Problem {
    match why {
        ChangeError::NoConsumer => missing(name),
        ChangeError::NotStored(error) => {
            event!(
                Level::Error,
                "a change of a consumer cannot be stored and is not in force",
                consumer = name,
                error = error
            );
            Problem::new(500, format!("the change cannot be stored: {error}"))
        }
        ChangeError::Taken { by, what } => {
            Problem::new(409, format!("the consumer \"{by}\" has the same {what}"))
        }
        ChangeError::Stale { .. } if expected.is_none() => {
            Problem::new(428, "a change needs If-Match with the version it replaces")
                .advice("send the ETag of GET, or `If-Match: *` to replace whatever is there")
        }
        ChangeError::Stale { current } => {
            let problem = Problem::new(412, "the consumer has another version than If-Match names")
                .advice("read it again with GET and change that");
            match current.is_empty() {
                true => problem,
                false => problem
                    .member("version", json!(current))
                    .field(Known::Etag, format!("\"{current}\"")),
            }
        }
    }
}

fn missing(name: &str) -> Problem {
    Problem::new(404, format!("there is no consumer \"{name}\""))
}

fn tagged(mut response: Response, version: &str) -> Response {
    response.headers.append(Known::Etag, format!("\"{version}\""));
    response
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use wire::Method;

    use super::*;
    use crate::testing::{Api, FakeServer};

    #[test]
    fn an_entry_is_added_read_replaced_and_deleted() {
        let api = Api(Rc::new(FakeServer::new()));
        let path = "/v1/consumers/alice";
        assert_eq!(api.send(Method::Get, path, None, "").0, 404);
        let entry = r#"{ "groups": ["gold"], "keys": [{ "key": "sesame-sesame" }] }"#;
        let (status, tag, _) = api.send(Method::Put, path, None, entry);
        assert_eq!(status, 201);
        let (status, read, body) = api.send(Method::Get, path, None, "");
        assert_eq!((status, &read), (200, &tag));
        assert!(body.contains("\"gold\"") && body.contains("sha256"), "{body}");
        assert!(!body.contains("sesame"), "{body}");
        // The response of GET can be sent back by PUT, and is the same version.
        assert_eq!(api.send(Method::Put, path, Some(&tag), &body).1, tag);
        let (status, other, _) = api.send(Method::Put, path, Some("*"), "{}");
        assert!(status == 200 && other != tag);
        let (status, current, _) = api.send(Method::Delete, path, Some(&tag), "");
        assert_eq!((status, &current), (412, &other));
        assert_eq!(api.send(Method::Delete, path, None, "").0, 428);
        assert_eq!(api.send(Method::Delete, path, Some(&other), "").0, 204);
        assert_eq!(api.send(Method::Get, path, None, "").0, 404);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let api = Api(Rc::new(FakeServer::new()));
        let key = r#"{ "keys": [{ "key": "sesame-sesame" }] }"#;
        assert_eq!(api.send(Method::Put, "/v1/consumers/a", None, key).0, 201);
        for (path, if_match, body, status, why) in [
            ("/v1/consumers/b", None, key, 409, "\\\"a\\\" has the same key"),
            ("/v1/consumers/a", None, key, 428, "If-Match"),
            ("/v1/consumers/b", Some("*"), key, 412, "another version"),
            ("/v1/consumers/b", None, r#"{ "name": "c" }"#, 422, "another consumer"),
            ("/v1/consumers/b", None, r#"{ "groups": 1 }"#, 422, "a list"),
            ("/v1/consumers/b", None, "{", 422, "not JSON"),
            ("/v1/consumers/b", None, "[]", 422, "an object"),
        ] {
            let (got, _, text) = api.send(Method::Put, path, if_match, body);
            assert!(got == status && text.contains(why), "{path} {body}: {got} {text}");
        }
        assert_eq!(api.send(Method::Delete, "/v1/consumers/b", Some("*"), "").0, 404);
    }

    #[test]
    fn a_name_in_a_path_is_decoded() {
        let api = Api(Rc::new(FakeServer::new()));
        assert_eq!(api.send(Method::Put, "/v1/consumers/a%2Fb%25c", None, "{}").0, 201);
        let (status, _, body) = api.send(Method::Get, "/v1/consumers/a%2fb%25c", None, "");
        assert!(status == 200 && body.contains("\"a/b%c\""), "{status} {body}");
        let delete = api.send(Method::Delete, "/v1/consumers/a/b%25c", Some("*"), "");
        assert_eq!(delete.0, 204);
    }

    #[test]
    fn names_come_in_pages() {
        let api = Api(Rc::new(FakeServer::new()));
        for name in ["c", "a", "b"] {
            assert_eq!(api.send(Method::Put, &format!("/v1/consumers/{name}"), None, "{}").0, 201);
        }
        let page = |query: &str| {
            let (_, _, body) = api.send(Method::Get, &format!("/v1/consumers{query}"), None, "");
            serde_json::from_str::<Json>(&body).unwrap()
        };
        assert_eq!(page(""), json!({ "consumers": ["a", "b", "c"] }));
        assert_eq!(page("?limit=2"), json!({ "consumers": ["a", "b"], "next": "b" }));
        assert_eq!(page("?limit=2&after=b"), json!({ "consumers": ["c"] }));
    }
}
