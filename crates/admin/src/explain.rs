//! `POST /v1/explain`: a request described in JSON, the way it would go as JSON or text.

use crate::control::{Control, Question};
use crate::limits::{EXPLAIN_FIELDS, REQUEST_BYTES};
use crate::messages::{ApiResult, body_text, json_response};
use crate::problem::Problem;
use message::{Request, Response};
use serde_json::{Map, Value as Json};
use settings::nearest;
use wire::Known;

const KEYS: [&str; 5] = ["method", "url", "headers", "client_ip", "listener"];

pub(crate) async fn answer(control: &dyn Control, request: &mut Request) -> ApiResult {
    let text = body_text(request, REQUEST_BYTES).await?;
    let question = question(&text)?;
    let explanation = control.explain(&question).map_err(|wrong| Problem::new(400, wrong))?;
    let accept = request.headers.get(Known::Accept);
    let offered = ["application/json", "text/plain"];
    Ok(match wire::negotiate::choose_media_type(accept, &offered) {
        Some(1) => Response::text(200, explanation.text),
        _ => json_response(200, &explanation.json),
    })
}

fn question(text: &str) -> Result<Question, Problem> {
    Ok(question_and(text, None)?.0)
}

/// Reads a question, and the text of one further key.
pub(crate) fn question_and(
    text: &str,
    further: Option<&'static str>,
) -> Result<(Question, Option<String>), Problem> {
    let body: Json = serde_json::from_str(text)
        .map_err(|e| Problem::new(400, format!("the body is not JSON: {e}")))?;
    let Json::Object(members) = body else {
        return Err(Problem::new(400, "the body must be a JSON object")
            .advice("for example {\"method\": \"GET\", \"url\": \"http://example.com/\"}"));
    };
    let keys: Vec<&str> = KEYS.into_iter().chain(further).collect();
    for key in members.keys() {
        if !keys.contains(&key.as_str()) {
            let problem = Problem::new(400, format!("unknown key \"{key}\""));
            return Err(match nearest(key, keys.iter().copied()) {
                Some(near) => problem.advice(format!("did you mean \"{near}\"?")),
                None => problem.advice(format!("keys: {}", keys.join(", "))),
            });
        }
    }
    let url =
        string(&members, "url")?.ok_or_else(|| Problem::new(400, "the body has no \"url\""))?;
    let client_ip = match string(&members, "client_ip")? {
        None => None,
        Some(typed) => Some(typed.parse().map_err(|_| {
            Problem::new(400, format!("\"client_ip\": \"{typed}\" is not an IP address"))
        })?),
    };
    let question = Question {
        method: string(&members, "method")?.unwrap_or_else(|| "GET".to_owned()),
        url,
        headers: headers(members.get("headers"))?,
        client_ip,
        listener: string(&members, "listener")?,
    };
    let further = further.map(|key| string(&members, key)).transpose()?.flatten();
    Ok((question, further))
}

fn string(members: &Map<String, Json>, key: &str) -> Result<Option<String>, Problem> {
    match members.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(Problem::new(400, format!("\"{key}\" must be a string, not {other}"))),
    }
}

/// `{"name": "value"}`, where a repeated field is `{"name": ["one", "two"]}`.
fn headers(value: Option<&Json>) -> Result<Vec<(String, String)>, Problem> {
    let members = match value {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Object(members)) => members,
        Some(other) => {
            let detail = format!("\"headers\" must be an object, not {other}");
            return Err(Problem::new(400, detail));
        }
    };
    let mut fields = Vec::new();
    for (name, value) in members {
        let values = match value {
            Json::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            let Json::String(text) = value else {
                let detail = format!("header \"{name}\" must be a string, not {value}");
                return Err(Problem::new(400, detail));
            };
            fields.push((name.clone(), text.clone()));
        }
    }
    if fields.len() > EXPLAIN_FIELDS {
        let detail = format!("{} header fields are more than {EXPLAIN_FIELDS}", fields.len());
        return Err(Problem::new(400, detail));
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::question;
    use crate::testing::text;
    use message::Response;

    fn wrong(body: &str) -> String {
        let mut response = Response::from(question(body).unwrap_err());
        assert_eq!(response.status, 400);
        text(&mut response)
    }

    #[test]
    fn a_question_with_everything() {
        let requested = question(
            r#"{"method": "POST", "url": "http://a/b?c", "headers": {"x": ["1", "2"], "y": "3"},
                "client_ip": "::1", "listener": "web"}"#,
        )
        .unwrap();
        assert_eq!(requested.method, "POST");
        let fields: Vec<_> =
            requested.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(fields, [("x", "1"), ("x", "2"), ("y", "3")]);
        assert_eq!(requested.client_ip, Some("::1".parse().unwrap()));
        assert_eq!(question(r#"{"url": "/"}"#).unwrap().method, "GET");
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(wrong("{").contains("not JSON"));
        assert!(wrong("[]").contains("must be a JSON object"));
        assert!(wrong("{}").contains(r#"no \"url\""#));
        assert!(wrong(r#"{"url": "/", "heders": {}}"#).contains(r#"did you mean \"headers\"?"#));
        assert!(wrong(r#"{"url": "/", "client_ip": "10.0.0"}"#).contains("10.0.0"));
        assert!(wrong(r#"{"url": 7}"#).contains("not 7"));
        assert!(wrong(r#"{"url": "/", "headers": {"x": 1}}"#).contains("not 1"));
    }
}
