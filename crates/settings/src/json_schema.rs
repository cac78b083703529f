//! The JSON Schema (draft 2020-12) of settings, from their own declarations.
//!
//! Promises: it accepts every document that the readers accept, apart from `${ENV}` in places of
//! numbers and truth values; it lists every key with its prose, default and examples.

use serde_json::{Map, Value, json};

use crate::node::Node;
use crate::schema::{ChoiceDef, Def, Field, RecordDef, Schema, SchemaBuilder};

/// The whole document: `root` and all definitions.
pub fn json_schema(title: &str, root: &Schema, defs: &SchemaBuilder) -> Value {
    let mut out = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
    });
    merge(&mut out, of_schema(root));
    let all: Map<_, _> = defs.iter().map(|(name, def)| (def_key(name), of_def(def))).collect();
    out["$defs"] = Value::Object(all);
    out
}

/// `upstream::health::Health` without the characters that a JSON pointer escapes.
fn def_key(name: &str) -> String {
    name.replace("::", ".")
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

fn of_schema(schema: &Schema) -> Value {
    match schema {
        Schema::Any => json!({}),
        Schema::Bool => json!({ "type": "boolean" }),
        Schema::Number => json!({ "type": "number" }),
        Schema::Integer { min, max } => {
            let mut out = json!({ "type": "integer" });
            merge(&mut out, bounds(*min, *max));
            out
        }
        Schema::Text(text) if !text.words.is_empty() => json!({ "enum": text.words }),
        Schema::Text(text) => match text.pattern {
            // A value from the environment has its form only once it is expanded.
            Some(pattern) => {
                let environment = json!({ "pattern": r"\$\{" });
                json!({ "type": "string", "anyOf": [{ "pattern": pattern }, environment] })
            }
            // A text may be spelled like a number: `value: 8080`.
            None => json!({ "type": ["string", "number", "boolean"] }),
        },
        Schema::List(item) => json!({ "type": "array", "items": of_schema(item) }),
        Schema::Map(item) => json!({ "type": "object", "additionalProperties": of_schema(item) }),
        Schema::Ref(name) => json!({ "$ref": format!("#/$defs/{}", def_key(name)) }),
        Schema::OneOf(all) => json!({ "anyOf": all.iter().map(of_schema).collect::<Vec<_>>() }),
        Schema::OneKey { key, value } => one_key(key, of_schema(value)),
    }
}

fn bounds(min: Option<i64>, max: Option<i64>) -> Value {
    let mut out = Map::new();
    out.extend(min.map(|min| ("minimum".to_owned(), min.into())));
    out.extend(max.map(|max| ("maximum".to_owned(), max.into())));
    Value::Object(out)
}

fn one_key(key: &str, value: Value) -> Value {
    json!({
        "type": "object",
        "properties": { key: value },
        "required": [key],
        "additionalProperties": false,
    })
}

fn of_def(def: &Def) -> Value {
    match def {
        Def::Record(record) => of_record(record),
        Def::Choice(choice) => of_choice(choice),
    }
}

fn of_record(record: &RecordDef) -> Value {
    let properties: Map<_, _> =
        record.fields.iter().map(|field| (field.key.to_owned(), of_field(field))).collect();
    let required: Vec<&str> =
        record.fields.iter().filter(|field| field.required).map(|field| field.key).collect();
    let mut map = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if required.is_empty() {
        // A map without keys may be left out after its name: `compress:`.
        map["type"] = json!(["object", "null"]);
    } else {
        map["required"] = json!(required);
    }
    let short = record.short.and_then(|short| record.fields.iter().find(|f| f.key == short));
    let mut out = match short {
        Some(field) => json!({ "anyOf": [of_schema(&field.schema), map] }),
        None => map,
    };
    out["description"] = json!(record.doc);
    out
}

fn of_field(field: &Field) -> Value {
    let mut out = of_schema(&field.schema);
    let mut description = field.doc.clone();
    if let Some((low, high)) = &field.range {
        match field.schema {
            Schema::Integer { .. } | Schema::Number => {
                out["minimum"] = low.to_json();
                out["maximum"] = high.to_json();
            }
            _ => {
                let (low, high) = (low.to_json(), high.to_json());
                let (low, high) = (low.as_str().unwrap_or(""), high.as_str().unwrap_or(""));
                description.push_str(&format!("\n\nBetween {low} and {high}."));
            }
        }
    }
    out["description"] = json!(description);
    if let Some(default) = field.default.as_ref().filter(|default| !default.is_null()) {
        out["default"] = default.to_json();
    }
    if !field.examples.is_empty() {
        out["examples"] = field.examples.iter().map(Node::to_json).collect();
    }
    if field.required {
        return out;
    }
    // `key:` with nothing after it is as if it were not written, for what is optional.
    match field.default.as_ref().is_none_or(Node::is_null) {
        true => json!({ "anyOf": [out, { "type": "null" }] }),
        false => out,
    }
}

fn of_choice(choice: &ChoiceDef) -> Value {
    let variants = choice.variants.iter().map(|variant| {
        let mut out = match &variant.payload {
            None => json!({ "const": variant.name }),
            Some(payload) => one_key(variant.name, of_schema(payload)),
        };
        out["description"] = json!(variant.doc);
        out
    });
    json!({ "anyOf": variants.collect::<Vec<_>>(), "description": choice.doc })
}

#[cfg(test)]
mod tests {
    use super::json_schema;
    use crate::{Duration, Key, Rate, SchemaBuilder, Secret, Setting, node};

    /// How a server is picked.
    #[derive(Clone, Debug, PartialEq, settings::Setting)]
    pub(crate) enum Balance {
        /// In turn.
        Turn,
        /// By key.
        Hash(Key),
    }

    /// A thing.
    #[derive(Clone, Debug, PartialEq, settings::Setting)]
    #[setting(short = rate, later(tls))]
    pub(crate) struct Thing {
        /// Needed.
        pub(crate) rate: Rate,
        /// How long.
        #[setting(default = "1s", range = "0s"..="1h", example = "5s")]
        pub(crate) wait: Duration,
        /// How many.
        #[setting(default = 1, range = 1..=10)]
        pub(crate) count: u32,
        /// Perhaps.
        pub(crate) token: Option<Secret>,
        /// How.
        #[setting(default = "turn")]
        pub(crate) balance: Balance,
        /// Inner ones.
        #[setting(default = [])]
        pub(crate) inner: Vec<Thing>,
    }

    #[test]
    fn it_accepts_what_the_reader_accepts_and_refuses_the_rest() {
        let mut defs = SchemaBuilder::default();
        let root = Thing::schema(&mut defs);
        let schema = json_schema("thing", &root, &defs);
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        for (node, valid) in [
            (node!({ "rate": "5/s" }), true),
            (node!("5/s"), true),
            (node!({ "rate": "5/s", "wait": "1m30s", "count": 10, "balance": "turn" }), true),
            (node!({ "rate": "5/s", "balance": { "hash": "client_ip" }, "token": null }), true),
            (node!({ "rate": "5/s", "token": { "file": "Cargo.toml" }, "inner": ["5/s"] }), true),
            (node!({}), false),
            (node!({ "rate": "5" }), false),
            (node!({ "rate": "5/s", "raet": 1 }), false),
            (node!({ "rate": "5/s", "count": 11 }), false),
            (node!({ "rate": "5/s", "tls": {} }), false),
            (node!({ "rate": "5/s", "balance": "hash" }), false),
            (node!({ "rate": "5/s", "inner": [{}] }), false),
        ] {
            let json = node.to_json();
            assert_eq!(validator.is_valid(&json), valid, "{json}");
            assert_eq!(crate::read::<Thing>(&node).is_ok(), valid, "{json}");
        }
        let thing = &schema["$defs"]["settings.json_schema.tests.Thing"]["anyOf"][1];
        let wait = &thing["properties"]["wait"];
        assert_eq!(wait["description"], "How long.\n\nBetween 0s and 1h.");
        assert_eq!((&wait["default"], &wait["examples"][0]), (&"1s".into(), &"5s".into()));
    }
}
