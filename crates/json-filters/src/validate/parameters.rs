//! Parameters of a request as JSON objects.
//!
//! Parameters are texts; a schema has numbers, truth values and lists. A text is converted where
//! the schema of its name has another type and the text is a value of it; otherwise it stays, and
//! the schema rejects it.

use std::borrow::Cow;

use message::Request;
use plugin::HeaderName;
use serde_json::{Map, Value};

use super::schema::JsonSchema;

pub(super) fn of_query(request: &Request, schema: &JsonSchema) -> Value {
    let mut values: Map<String, Value> = Map::new();
    for (name, value) in wire::target::query_pairs(request.target.query().unwrap_or_default()) {
        let (name, value) = (text(name), Value::from(text(value)));
        match values.get_mut(&name) {
            Some(Value::Array(list)) => list.push(value),
            // A second value: the schema decides whether a list is allowed.
            _ => drop(values.insert(name, Value::Array(vec![value]))),
        }
    }
    for (name, value) in &mut values {
        let taken = value.take();
        *value = converted(taken, schema.property(name));
    }
    Value::Object(values)
}

pub(super) fn of_headers(request: &Request, schema: &JsonSchema) -> Value {
    let value = |name: &str| {
        let header: HeaderName = name.parse().ok()?;
        let mut values = request.headers.joined(&header);
        // The application may take `X_User` for `X-User`.
        for alias in request.headers.aliases(&header) {
            match &mut values {
                Some(values) => values.to_mut().extend([b", ", alias.value].concat()),
                None => values = Some(Cow::Borrowed(alias.value)),
            }
        }
        let value = Value::Array(vec![Value::from(text(values?))]);
        Some((name.to_owned(), converted(value, schema.property(name))))
    };
    Value::Object(schema.member_names().filter_map(value).collect())
}

pub(super) fn of_path(request: &Request, schema: &JsonSchema) -> Value {
    let value = |name: &str| {
        let value = request.params.get(request.target.routed_path(), name)?;
        let value = Value::Array(vec![Value::from(value)]);
        Some((name.to_owned(), converted(value, schema.property(name))))
    };
    Value::Object(request.params.names().filter_map(value).collect())
}

fn text(bytes: Cow<'_, [u8]>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The values of one name in the type of its schema: one value, or a list.
fn converted(values: Value, schema: Option<&Value>) -> Value {
    let Value::Array(mut list) = values else { return values };
    if has_type(schema, "array") {
        let items = schema.and_then(|schema| schema.get("items"));
        return list.into_iter().map(|value| scalar(value, items)).collect();
    }
    match list.len() {
        1 => scalar(list.swap_remove(0), schema),
        _ => Value::Array(list),
    }
}

fn scalar(value: Value, schema: Option<&Value>) -> Value {
    let Some(text) = value.as_str() else { return value };
    let is_number = has_type(schema, "integer") || has_type(schema, "number");
    let parsed = match text {
        "true" | "false" if has_type(schema, "boolean") => Some(Value::from(text == "true")),
        // The upstream gets the text as it is, with white space around it.
        _ if is_number && text.trim_ascii() == text => {
            serde_json::from_str(text).ok().filter(Value::is_number)
        }
        _ => None,
    };
    parsed.unwrap_or(value)
}

fn has_type(schema: Option<&Value>, name: &str) -> bool {
    match schema.and_then(|schema| schema.get("type")) {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    }
}
