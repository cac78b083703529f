//! Schemas of OpenAPI as JSON Schema.

use json_filters::is_keyword;
use serde_json::{Map, Value, json};
use settings::Regex;

/// The version of a schema.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Dialect {
    /// OpenAPI 3.0: its own dialect, with `nullable` and boolean exclusive limits.
    V30,
    /// OpenAPI 3.1: JSON Schema, draft 2020-12.
    V31,
}

/// The maximum number of references in a row.
const REFERENCES_MAX: usize = 16;

/// Keywords that say nothing about what is valid.
const ANNOTATIONS: [&str; 11] = [
    "title",
    "description",
    "example",
    "examples",
    "default",
    "deprecated",
    "externalDocs",
    "xml",
    "discriminator",
    "readOnly",
    "writeOnly",
];

/// The maximum number of schemas in which read-only properties are looked for at once.
const READ_ONLY_SCHEMAS_MAX: usize = 256;

/// Resolves an object with `$ref`.
pub(super) fn resolve<'d>(value: &'d Value, document: &'d Value) -> &'d Value {
    let mut value = value;
    for _ in 0..REFERENCES_MAX {
        let reference = value.get("$ref").and_then(Value::as_str);
        match reference.and_then(|r| document.pointer(r.strip_prefix('#')?)) {
            Some(target) => value = target,
            None => break,
        }
    }
    value
}

/// A schema whose references lead into `defs`, where what they refer to is added.
pub(super) fn converted(
    schema: &Value,
    document: &Value,
    dialect: Dialect,
    defs: &mut Map<String, Value>,
    place: &str,
    notes: &mut Vec<String>,
) -> Value {
    let mut conversion = Conversion { document, dialect, defs, place, notes };
    conversion.schema(schema, 0)
}

struct Conversion<'c> {
    document: &'c Value,
    dialect: Dialect,
    defs: &'c mut Map<String, Value>,
    place: &'c str,
    notes: &'c mut Vec<String>,
}

impl Conversion<'_> {
    fn note(&mut self, what: &str) {
        let note = format!("{}: {what}", self.place);
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Converts a schema; deeper than any sensible one, it accepts everything.
    fn schema(&mut self, schema: &Value, depth: usize) -> Value {
        let Value::Object(members) = schema else {
            return if schema.is_boolean() { schema.clone() } else { json!({}) };
        };
        if depth > 64 {
            self.note("a schema is nested too deep and is not checked");
            return json!({});
        }
        let mut out = Map::new();
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            out.insert("$ref".to_owned(), self.reference(reference, depth));
            if self.dialect == Dialect::V30 {
                // Siblings of a reference are ignored.
                return drop_unknown_reference(out);
            }
        }
        for (key, value) in members {
            if ANNOTATIONS.contains(&key.as_str()) || key.starts_with("x-") || key == "$ref" {
                continue;
            }
            if let Some(value) = self.keyword(key, value, depth) {
                out.insert(key.clone(), value);
            }
        }
        if self.dialect == Dialect::V30 {
            self.convert_3_0(members, &mut out);
        }
        let mut read_only = Vec::new();
        let mut rest = READ_ONLY_SCHEMAS_MAX;
        read_only_names(schema, self.document, &mut rest, &mut read_only);
        not_required(&mut out, &read_only);
        // One part of a schema may require what another one declares.
        if let Some(Value::Array(parts)) = out.get_mut("allOf") {
            for part in parts.iter_mut().filter_map(Value::as_object_mut) {
                not_required(part, &read_only);
            }
        }
        drop_unknown_reference(out)
    }

    fn keyword(&mut self, key: &str, value: &Value, depth: usize) -> Option<Value> {
        Some(match (key, value) {
            (
                "properties" | "patternProperties" | "dependentSchemas" | "$defs",
                Value::Object(map),
            ) => {
                let members = map.iter();
                members.map(|(name, one)| (name.clone(), self.schema(one, depth + 1))).collect()
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(all)) => {
                all.iter().map(|one| self.schema(one, depth + 1)).collect()
            }
            (
                "items"
                | "not"
                | "additionalProperties"
                | "contains"
                | "propertyNames"
                | "if"
                | "then"
                | "else"
                | "unevaluatedProperties"
                | "unevaluatedItems",
                value,
            ) => self.schema(value, depth + 1),
            ("pattern", Value::String(pattern)) if pattern.parse::<Regex>().is_err() => {
                self.note(&format!("the pattern {pattern:?} is not supported and not checked"));
                return None;
            }
            ("nullable", _) if self.dialect == Dialect::V30 => return None,
            (unknown, _) if !is_keyword(unknown) => {
                self.note(&format!("the keyword {unknown:?} is not one of JSON Schema"));
                return None;
            }
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(_)) => return None,
            (_, value) => value.clone(),
        })
    }

    /// Converts the keywords that 3.0 writes in another way.
    fn convert_3_0(&mut self, members: &Map<String, Value>, out: &mut Map<String, Value>) {
        for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")]
        {
            if members.get(exclusive) == Some(&Value::Bool(true))
                && let Some(value) = out.remove(limit)
            {
                out.insert(exclusive.to_owned(), value);
            }
        }
        if members.get("nullable") == Some(&Value::Bool(true)) {
            if let Some(kind @ Value::String(_)) = out.get("type") {
                out.insert("type".to_owned(), json!([kind, "null"]));
            }
            if let Some(Value::Array(values)) = out.get_mut("enum")
                && !values.contains(&Value::Null)
            {
                values.push(Value::Null);
            }
        }
    }

    /// The new form of a reference, `null` if it leads nowhere.
    fn reference(&mut self, reference: &str, depth: usize) -> Value {
        if reference == "#" {
            self.note("the reference # is not checked");
            return Value::Null;
        }
        let target = reference.strip_prefix('#').and_then(|at| self.document.pointer(at));
        let Some(target) = target else {
            self.note(&format!("the reference {reference} leads out of the document"));
            return Value::Null;
        };
        // Names of components are letters, digits, `.`, `-` and `_`.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name: String =
            reference[1..].chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        let name = name.trim_start_matches("_components_schemas_").to_owned();
        if !self.defs.contains_key(&name) {
            // It may refer to itself.
            self.defs.insert(name.clone(), json!({}));
            let converted = self.schema(&target.clone(), depth + 1);
            self.defs.insert(name.clone(), converted);
        }
        format!("#/$defs/{name}").into()
    }
}

/// Finds the properties that only responses have (OpenAPI 3.0 and 3.1: `required` then applies to
/// the response alone).
fn read_only_names<'d>(
    schema: &'d Value,
    document: &'d Value,
    rest: &mut usize,
    names: &mut Vec<&'d str>,
) {
    let Some(less) = rest.checked_sub(1) else { return };
    *rest = less;
    let schema = resolve(schema, document);
    let is_read_only = |property: &Value| property.get("readOnly") == Some(&Value::Bool(true));
    for (name, property) in
        schema.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        if is_read_only(property) || is_read_only(resolve(property, document)) {
            names.push(name);
        }
    }
    for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        read_only_names(part, document, rest, names);
    }
}

/// Removes names from the required ones of a schema.
fn not_required(schema: &mut Map<String, Value>, names: &[&str]) {
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| name.as_str().is_none_or(|name| !names.contains(&name)));
    }
}

fn drop_unknown_reference(mut schema: Map<String, Value>) -> Value {
    if schema.get("$ref") == Some(&Value::Null) {
        schema.remove("$ref");
    }
    Value::Object(schema)
}
