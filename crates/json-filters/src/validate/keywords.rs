//! The keywords of JSON Schema, from draft 4 to 2020-12.
//!
//! A validator ignores a keyword that it does not know, so that a misspelled one would check
//! nothing. Here it is an error, unless its name begins with `x-`.

use serde_json::Value;

/// What a keyword contains.
#[derive(Clone, Copy)]
enum Content {
    /// No schema.
    Plain,
    /// A schema, or a list of schemas.
    Schemas,
    /// Schemas by name.
    Named,
}

use Content::{Named, Plain, Schemas};

const KEYWORDS: [(&str, Content); 65] = [
    ("type", Plain),
    ("properties", Named),
    ("required", Plain),
    ("additionalProperties", Schemas),
    ("items", Schemas),
    ("enum", Plain),
    ("const", Plain),
    ("minimum", Plain),
    ("maximum", Plain),
    ("exclusiveMinimum", Plain),
    ("exclusiveMaximum", Plain),
    ("multipleOf", Plain),
    ("minLength", Plain),
    ("maxLength", Plain),
    ("pattern", Plain),
    ("format", Plain),
    ("minItems", Plain),
    ("maxItems", Plain),
    ("uniqueItems", Plain),
    ("minProperties", Plain),
    ("maxProperties", Plain),
    ("patternProperties", Named),
    ("propertyNames", Schemas),
    ("allOf", Schemas),
    ("anyOf", Schemas),
    ("oneOf", Schemas),
    ("not", Schemas),
    ("if", Schemas),
    ("then", Schemas),
    ("else", Schemas),
    ("prefixItems", Schemas),
    ("additionalItems", Schemas),
    ("contains", Schemas),
    ("minContains", Plain),
    ("maxContains", Plain),
    ("unevaluatedItems", Schemas),
    ("unevaluatedProperties", Schemas),
    ("dependencies", Named),
    ("dependentRequired", Plain),
    ("dependentSchemas", Named),
    ("contentEncoding", Plain),
    ("contentMediaType", Plain),
    ("contentSchema", Schemas),
    ("$schema", Plain),
    ("$id", Plain),
    ("id", Plain),
    ("$ref", Plain),
    ("$anchor", Plain),
    ("$dynamicRef", Plain),
    ("$dynamicAnchor", Plain),
    ("$recursiveRef", Plain),
    ("$recursiveAnchor", Plain),
    ("$defs", Named),
    ("definitions", Named),
    ("$vocabulary", Plain),
    ("$comment", Plain),
    ("title", Plain),
    ("description", Plain),
    ("default", Plain),
    ("deprecated", Plain),
    ("readOnly", Plain),
    ("writeOnly", Plain),
    ("examples", Plain),
    // OpenAPI's.
    ("example", Plain),
    ("externalDocs", Plain),
];

/// The names of all keywords, those that are written most often first.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KEYWORDS.iter().map(|(name, _)| *name)
}

/// What a keyword contains; `None` if a schema may not have it.
fn content(name: &str) -> Option<Content> {
    if name.starts_with("x-") {
        return Some(Plain);
    }
    KEYWORDS.iter().find(|(keyword, _)| *keyword == name).map(|(_, content)| *content)
}

/// True if a schema may have this keyword.
pub fn is_keyword(name: &str) -> bool {
    content(name).is_some()
}

/// An unknown keyword of a schema or of one within it, and the JSON Pointer of that one.
pub(super) fn unknown(schema: &Value) -> Option<(String, &str)> {
    let mut nested = vec![(String::new(), schema)];
    while let Some((place, schema)) = nested.pop() {
        for (name, value) in schema.as_object().into_iter().flatten() {
            let Some(content) = content(name) else { return Some((place, name)) };
            let inside = || format!("{place}/{name}");
            match (content, value) {
                (Schemas, Value::Array(all)) => {
                    let number = |(at, one)| (format!("{}/{at}", inside()), one);
                    nested.extend(all.iter().enumerate().map(number));
                }
                (Schemas, one) => nested.push((inside(), one)),
                (Named, Value::Object(all)) => {
                    nested
                        .extend(all.iter().map(|(key, one)| (format!("{}/{key}", inside()), one)));
                }
                (Plain | Named, _) => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unknown_keyword_is_found_at_every_depth() {
        for (schema, place, name) in [
            (json!({ "schema": { "type": "object" } }), "", "schema"),
            (json!({ "properties": { "age": { "maximun": 5 } } }), "/properties/age", "maximun"),
            (json!({ "items": { "typ": "object" } }), "/items", "typ"),
            (json!({ "allOf": [{}, { "Type": "object" }] }), "/allOf/1", "Type"),
            (json!({ "$defs": { "a": { "not": { "b": 1 } } } }), "/$defs/a/not", "b"),
            (json!({ "dependencies": { "a": { "b": 1 } } }), "/dependencies/a", "b"),
        ] {
            assert_eq!(unknown(&schema), Some((place.to_owned(), name)), "{schema}");
        }
        for schema in [
            json!({ "properties": { "schema": { "type": "string" } }, "x-owner": "shop" }),
            json!({ "enum": [{ "a": 1 }], "default": { "b": 1 }, "dependencies": { "a": ["b"] } }),
            json!({ "additionalProperties": false, "items": [true, {}] }),
            json!(true),
        ] {
            assert_eq!(unknown(&schema), None, "{schema}");
        }
        assert!(is_keyword("type") && is_keyword("x-any") && !is_keyword("typ"));
    }
}
