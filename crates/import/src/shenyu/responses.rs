//! The plugins mock and redirect, which respond themselves.

use serde_json::{Value, json};

use super::model::{escaped, number, text};

/// The handler of a rule of `redirect`.
pub(super) fn redirect(handle: &Value, place: &str, notes: &mut Vec<String>) -> Value {
    let to = text(handle, "redirectURI");
    let status = number(handle, "httpStatusCode").map_or(302, |status| status as u64);
    let status = if [301, 302, 303, 307, 308].contains(&status) { status } else { 302 };
    if to.starts_with('/') {
        notes.push(format!("{place}: {to} becomes a redirect, ShenYu continues in the gateway"));
    } else if !to.starts_with("http://") && !to.starts_with("https://") {
        notes.push(format!("{place}: {to:?} is not a target of a redirect"));
        return json!({ "respond": { "status": 500 } });
    }
    json!({ "redirect": { "to": escaped(&to), "status": status } })
}

/// The settings of `mock` for a rule of that name.
pub(super) fn mock(handle: &Value, place: &str, notes: &mut Vec<String>) -> Value {
    let content = text(handle, "responseContent");
    let (mut body, mut rest) = (String::new(), &*content);
    while let Some((before, after)) = rest.split_once("${") {
        body.push_str(&escaped(before));
        let Some((expression, after)) = after.split_once('}') else {
            rest = &rest[before.len()..];
            break;
        };
        match generator(expression.trim()) {
            Some(generator) => body.push_str(&format!("{{{generator}}}")),
            None => {
                notes.push(format!("{place}: ${{{expression}}} has no counterpart"));
                body.push_str(&escaped(&format!("${{{expression}}}")));
            }
        }
        rest = after;
    }
    body.push_str(&escaped(rest));
    let status = number(handle, "httpStatusCode").map_or(200, |status| status as u64);
    let is_json = content.trim_start().starts_with(['{', '[']);
    let media_type = if is_json { "application/json" } else { "text/plain" };
    json!({
        "status": status.clamp(200, 599),
        "headers": { "content-type": media_type },
        "body": body,
    })
}

/// The generator of `mock` for one of ShenYu's.
fn generator(expression: &str) -> Option<String> {
    let mut parts = expression.split('|').map(str::trim);
    let (name, argument) = (parts.next()?, parts.next().unwrap_or_default());
    let range = argument.split_once('-');
    match name {
        "int" | "double" => {
            let (low, high) = range?;
            let (low, high): (i64, i64) = (low.parse().ok()?, high.parse().ok()?);
            let name = if name == "int" { "int" } else { "float" };
            (low <= high).then(|| format!("random.{name} {low} {high}"))
        }
        "bool" => Some("random.bool".to_owned()),
        "en" | "zh" => Some("random.word".to_owned()),
        "email" => Some("random.email".to_owned()),
        "phone" => Some("random.phone".to_owned()),
        "current" => Some("random.time".to_owned()),
        "list" => {
            let items = argument.strip_prefix('[')?.strip_suffix(']')?;
            let is_plain = |c: char| c.is_alphanumeric() || " ,_-".contains(c);
            let items: Vec<&str> = items.split(',').map(str::trim).collect();
            (argument.chars().skip(1).take(argument.len().saturating_sub(2)).all(is_plain))
                .then(|| format!("random.of {}", items.join("|")))
        }
        _ => None,
    }
}
