//! Errors of the API: problem+json (RFC 9457).
//!
//! They are read by operators, so they describe the error and what to do.

use message::Response;
use serde_json::{Map, Value, json};
use wire::Known;

/// An error on its way to the client.
#[derive(Debug)]
pub(crate) struct Problem {
    status: u16,
    members: Map<String, Value>,
    fields: Vec<(Known, String)>,
}

impl Problem {
    pub(crate) fn new(status: u16, detail: impl Into<String>) -> Self {
        let mut members = Map::new();
        members.insert("title".into(), json!(wire::h1::reason(status)));
        members.insert("status".into(), json!(status));
        members.insert("detail".into(), json!(detail.into()));
        Self { status, members, fields: Vec::new() }
    }

    /// A request whose client is not recognized (RFC 9110 section 15.5.2).
    pub(crate) fn unauthorized(detail: &str, challenge: &str) -> Self {
        Self::new(401, detail).field(Known::WwwAuthenticate, challenge)
    }

    /// Adds what to do about the error.
    pub(crate) fn advice(self, advice: impl Into<String>) -> Self {
        self.member("advice", json!(advice.into()))
    }

    /// Adds a member of its own (RFC 9457 section 3.2).
    pub(crate) fn member(mut self, name: &str, value: Value) -> Self {
        self.members.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn field(mut self, name: Known, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }
}

impl From<Problem> for Response {
    fn from(problem: Problem) -> Self {
        let body = pretty(&Value::Object(problem.members));
        let mut response = Response::with_body(problem.status, "application/problem+json", body);
        for (name, value) in problem.fields {
            response.headers.append(name, value);
        }
        response
    }
}

/// JSON for people and programs: indented, with a line end.
pub(crate) fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::Problem;
    use crate::testing::text;
    use message::Response;
    use wire::Known;

    #[test]
    fn a_problem_says_what_and_what_to_do() {
        let problem = Problem::new(405, "PUT is not for /v1/drain")
            .advice("use POST")
            .field(Known::Allow, "POST");
        let mut response = Response::from(problem);
        assert_eq!(response.status, 405);
        assert_eq!(response.headers.get_str(Known::ContentType), Some("application/problem+json"));
        assert_eq!(response.headers.get_str(Known::Allow), Some("POST"));
        let body: serde_json::Value = serde_json::from_str(&text(&mut response)).unwrap();
        assert_eq!(body["title"], "Method Not Allowed");
        assert_eq!(body["advice"], "use POST");
    }
}
