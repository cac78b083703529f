//! A JSON Schema in the configuration, compiled when it is read.

use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use settings::{Node, REGEX_BYTES, Reader, Schema, SchemaBuilder, Setting, quote};

use super::keywords;

/// The maximum number of reported violations of a document.
const VIOLATIONS_MAX: usize = 16;
/// The longest pointer that is reported: member names are the client's.
const POINTER_BYTES_MAX: usize = 256;

#[derive(Clone, Debug)]
pub(super) struct JsonSchema {
    source: Arc<Value>,
    validator: Arc<Validator>,
}

impl PartialEq for JsonSchema {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// A place and the rule that it violates.
#[derive(Debug, PartialEq)]
pub(super) struct Violation {
    pub(super) pointer: String,
    pub(super) keyword: String,
}

impl JsonSchema {
    pub(super) fn violations(&self, value: &Value) -> Vec<Violation> {
        let errors = self.validator.iter_errors(value).take(VIOLATIONS_MAX);
        let violations = errors.map(|error| {
            let pointer = error.instance_path().as_str();
            let end = pointer.floor_char_boundary(POINTER_BYTES_MAX);
            Violation {
                pointer: pointer[..end].to_owned(),
                keyword: error.kind().keyword().to_owned(),
            }
        });
        violations.collect()
    }

    /// The schema of a member, where `properties` has one, with a local reference resolved.
    pub(super) fn property(&self, name: &str) -> Option<&Value> {
        let schema = self.source.get("properties")?.get(name)?;
        match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.source.pointer(reference.strip_prefix('#')?),
            None => Some(schema),
        }
    }

    /// The names of members in `properties` and `required`.
    pub(super) fn member_names(&self) -> impl Iterator<Item = &str> {
        let properties = self.source.get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flat_map(|map| map.keys().map(String::as_str));
        let required = self.source.get("required").and_then(Value::as_array);
        properties.chain(required.into_iter().flatten().filter_map(Value::as_str))
    }

    fn compile(source: Value) -> Result<JsonSchema, String> {
        let options = jsonschema::options()
            .offline()
            .should_validate_formats(true)
            .with_pattern_options(PatternOptions::regex().size_limit(REGEX_BYTES));
        let validator = options.build(&source).map_err(|error| error.to_string())?;
        Ok(JsonSchema { source: Arc::new(source), validator: Arc::new(validator) })
    }
}

impl Setting for JsonSchema {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::Any
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let file = match node.map() {
            Some([(key, value)]) if key.name == "file" => value.text(),
            Some(_) => None,
            None => {
                let form = "a JSON Schema, or { file: schema.json }";
                reader.expected(node, form);
                return None;
            }
        };
        let source = match file {
            Some(path) => {
                let content = reader.read_file(node.span, path.as_ref())?;
                match serde_json::from_slice(&content) {
                    Ok(source) => source,
                    Err(error) => {
                        reader.error(node.span, format!("{path} is not JSON: {error}"));
                        return None;
                    }
                }
            }
            None => node.to_json(),
        };
        if let Some((place, keyword)) = keywords::unknown(&source) {
            let place = if place.is_empty() { "the schema" } else { &place };
            let message = format!("unknown keyword {} in {place}", quote(keyword));
            reader.report().with_nearest(node.span, message, keyword, keywords::names());
            return None;
        }
        match JsonSchema::compile(source) {
            Ok(schema) => Some(schema),
            Err(why) => {
                reader.error(node.span, format!("this is not a valid JSON Schema: {why}"));
                None
            }
        }
    }
}
