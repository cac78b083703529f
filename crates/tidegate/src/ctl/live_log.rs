//! The output of `ctl log`: a finished request with its steps, from the JSON of the admin API.

use std::fmt::Write;

use serde_json::Value;

use super::status::{list, micros, text};
use crate::output::add_line;

/// Formats a line of `/v1/log` for people.
pub(crate) fn request_text(line: &Value) -> String {
    if let Some(dropped) = line["dropped"].as_u64() {
        return format!("{dropped} requests are not shown: there are more than 1000 a second\n");
    }
    let attributes = &line["attributes"];
    let mut page = String::new();
    add_line(&mut page, &summary(line, attributes));
    let at_us = |step: &Value| step["at_us"].as_i64().unwrap_or(0);
    let (before_route, after_route): (Vec<_>, Vec<_>) =
        list(line, "steps").partition(|step| is_before_route(step));
    for step in before_route {
        add_step(&mut page, at_us(step), step["took_us"].as_u64(), &described(step));
    }
    add_step(&mut page, 0, None, &route(line, attributes));
    for step in after_route {
        add_step(&mut page, at_us(step), step["took_us"].as_u64(), &described(step));
    }
    if attributes["http.response.body.size"].is_null() {
        add_step(&mut page, line["duration_us"].as_i64().unwrap_or(0), None, "tunnel");
    }
    match line["steps_dropped"].as_u64() {
        None | Some(0) => {}
        Some(dropped) => add_line(&mut page, &format!("  and {dropped} further steps")),
    }
    page
}

/// True for how the connection began, which may be long before the request, and for its head.
fn is_before_route(step: &Value) -> bool {
    matches!(step["name"].as_str(), Some("accept" | "tls handshake" | "request head"))
}

fn summary(line: &Value, attributes: &Value) -> String {
    let mut summary = format!(
        "{} {} {}://{}{}",
        text(line, "time"),
        text(attributes, "http.request.method"),
        text(attributes, "url.scheme"),
        text(attributes, "server.address"),
        text(attributes, "url.path"),
    );
    if let Some(query) = attributes["url.query"].as_str() {
        summary.push('?');
        summary.push_str(query);
    }
    summary.push_str(&format!(
        " {} {} client={}",
        text(attributes, "http.response.status_code"),
        micros(&line["duration_us"]),
        text(attributes, "client.address"),
    ));
    for (name, shown) in [
        ("tidegate.consumer", "consumer"),
        ("tidegate.request_id", "request_id"),
        ("tidegate.cache", "cache"),
        ("rpc.grpc.status_code", "grpc_status"),
        ("error.type", "fault"),
    ] {
        if !attributes[name].is_null() {
            summary.push_str(&format!(" {shown}={}", text(attributes, name)));
        }
    }
    summary
}

fn route(line: &Value, attributes: &Value) -> String {
    match (attributes["tidegate.route"].as_str(), line["match"].as_str()) {
        (Some(route), Some(rule)) => format!("route {route}: {rule}"),
        (Some(route), None) => format!("route {route}"),
        (None, _) => "no route".to_owned(),
    }
}

/// The name of a step and its attributes, the usual ones without their names.
fn described(step: &Value) -> String {
    let depth = usize::try_from(step["depth"].as_u64().unwrap_or(0)).unwrap_or(0).min(16);
    let mut line = format!("{}{}", "  ".repeat(depth), text(step, "name"));
    let attributes = step["attributes"].as_object();
    for (name, value) in attributes.into_iter().flatten() {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let _ = match name.as_str() {
            "tidegate.message" if value == "request" => Ok(()),
            "tidegate.message" => write!(line, " of the {value}"),
            "http.request.method" => Ok(()),
            "http.response.status_code" | "error.type" | "server.address" => {
                write!(line, " {value}")
            }
            name => write!(line, " {}={value}", name.rsplit('.').next().unwrap_or(name)),
        };
    }
    if step["failed"] == true {
        line.push_str(" (failed)");
    }
    line
}

fn add_step(page: &mut String, at_us: i64, took_us: Option<u64>, what: &str) {
    let sign = if at_us < 0 { "-" } else { "+" };
    let at = format!("{sign}{}", micros(&at_us.unsigned_abs().into()));
    let took = took_us.map(|us| micros(&us.into())).unwrap_or_default();
    add_line(page, &format!("{at:>10} {took:>9}  {what}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_and_its_steps() {
        let line = json!({
            "time": "2026-11-23T10:00:00.000Z", "duration_us": 12_300, "steps_dropped": 2,
            "match": "path /a", "attributes": {
                "http.request.method": "GET", "url.scheme": "http",
                "server.address": "shop.example",
                "url.path": "/a", "url.query": "b=c", "http.response.status_code": 502,
                "client.address": "10.0.0.9", "tidegate.route": "shop", "error.type": "refused",
                "http.response.body.size": 20,
            },
            "steps": [
                { "name": "accept", "at_us": -1_500_000, "took_us": 0, "depth": 0, "failed": false,
                  "attributes": { "tidegate.listener": "web" } },
                { "name": "request head", "at_us": -40, "took_us": 40, "depth": 0, "failed": false,
                  "attributes": {} },
                { "name": "cors", "at_us": 5, "took_us": 2, "depth": 0, "failed": false,
                  "attributes": { "tidegate.message": "response" } },
                { "name": "upstream attempt", "at_us": 90, "took_us": 800, "depth": 1,
                  "failed": true,
                  "attributes": { "server.address": "10.0.0.1", "error.type": "x" } },
                { "name": "response body", "at_us": 11_300, "took_us": 1000, "depth": 0,
                  "failed": false, "attributes": { "http.response.body.size": 20 } },
            ],
        });
        let expected = "\
2026-11-23T10:00:00.000Z GET http://shop.example/a?b=c 502 12.3ms client=10.0.0.9 fault=refused
    -1.50s       0us  accept listener=web
     -40us      40us  request head
      +0us            route shop: path /a
      +5us       2us  cors of the response
     +90us     800us    upstream attempt 10.0.0.1 x (failed)
   +11.3ms     1.0ms  response body size=20
  and 2 further steps
";
        assert_eq!(request_text(&line), expected);
        let dropped = request_text(&json!({ "dropped": 3 }));
        assert!(dropped.starts_with("3 requests are not shown"), "{dropped}");
    }

    #[test]
    fn no_character_of_a_request_reaches_the_terminal_unescaped() {
        let hostile = "\u{1b}]0;x\u{7}\u{9b}31m\r\n\u{202e}\u{200b}\u{7f}é";
        let line = json!({ "attributes": { "url.path": hostile }, "steps": [
            { "name": hostile, "attributes": { "a.b": hostile } },
        ] });
        let page = request_text(&line);
        assert!(page.chars().all(|c| c == '\n' || !c.is_control()), "{page:?}");
        assert!(page.contains("\\u{1b}]0;x\\u{7}") && page.contains('é'), "{page}");
        assert_eq!(page.lines().count(), 4, "a line for each step: {page}");
    }
}
