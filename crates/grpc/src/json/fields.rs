//! Values of a path or a query, put into the JSON of a message.
//!
//! A message is always read from JSON, so that its fields have one syntax wherever they came from.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

/// How deep a query may name fields within fields.
const DEPTH_MAX: usize = 16;

/// A field within a message, by the fields that lead to it.
#[derive(Clone, Debug)]
pub(super) struct FieldPath(Vec<FieldDescriptor>);

impl FieldPath {
    /// The field of these names, in the spelling of the descriptor or of JSON.
    pub(super) fn find(message: &MessageDescriptor, names: &str) -> Result<FieldPath, String> {
        let unknown = || format!("{} has no field {names}", message.full_name());
        let mut path: Vec<FieldDescriptor> = Vec::new();
        for name in names.split('.') {
            let inside = match path.last() {
                None => message.clone(),
                Some(field) => match field.kind() {
                    Kind::Message(inside) if !field.is_list() && !field.is_map() => inside,
                    _ => return Err(unknown()),
                },
            };
            let by_name = inside.get_field_by_name(name);
            let field = by_name.or_else(|| inside.get_field_by_json_name(name));
            path.push(field.ok_or_else(unknown)?);
        }
        if path.len() > DEPTH_MAX {
            return Err(format!("{names} is more than {DEPTH_MAX} fields deep"));
        }
        Ok(FieldPath(path))
    }

    pub(super) fn last(&self) -> Option<&FieldDescriptor> {
        self.0.last()
    }

    pub(super) fn is_list(&self) -> bool {
        self.last().is_some_and(FieldDescriptor::is_list)
    }

    /// True if one is the other or within it.
    pub(super) fn overlaps(&self, other: &FieldPath) -> bool {
        self.0.iter().zip(&other.0).all(|(one, two)| one == two)
    }

    /// A text as the JSON of the field.
    pub(super) fn value(&self, text: &str) -> Result<Value, String> {
        let name = self.0.last().map_or("", |field| field.name());
        let boolean = || match text {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(format!("{name} is either true or false")),
        };
        match self.0.last().map(FieldDescriptor::kind) {
            _ if self.0.last().is_some_and(FieldDescriptor::is_map) => {
                Err(format!("{name} is a map"))
            }
            Some(Kind::Bool) => boolean(),
            Some(Kind::Enum(_)) if text.parse::<i32>().is_ok() => {
                Ok(Value::from(text.parse::<i32>().unwrap_or_default()))
            }
            Some(Kind::Message(message)) => match message.full_name() {
                "google.protobuf.BoolValue" => boolean(),
                "google.protobuf.Timestamp"
                | "google.protobuf.Duration"
                | "google.protobuf.FieldMask"
                | "google.protobuf.StringValue"
                | "google.protobuf.BytesValue"
                | "google.protobuf.DoubleValue"
                | "google.protobuf.FloatValue"
                | "google.protobuf.Int32Value"
                | "google.protobuf.Int64Value"
                | "google.protobuf.UInt32Value"
                | "google.protobuf.UInt64Value" => Ok(Value::from(text)),
                _ => Err(format!("{name} is a message")),
            },
            _ => Ok(Value::from(text)),
        }
    }

    /// Sets the field in the JSON of the message; a repeated field gets one more value.
    pub(super) fn insert(&self, root: &mut Map<String, Value>, value: Value) -> Result<(), String> {
        let place = self.value_mut(root)?;
        match place {
            Value::Array(values) if self.is_list() => values.push(value),
            _ if self.is_list() => *place = Value::Array(vec![value]),
            _ => *place = value,
        }
        Ok(())
    }

    /// Sets the field as a whole.
    pub(super) fn replace(
        &self,
        root: &mut Map<String, Value>,
        value: Value,
    ) -> Result<(), String> {
        *self.value_mut(root)? = value;
        Ok(())
    }

    /// Where the field stands in the JSON of the message.
    fn value_mut<'r>(&self, root: &'r mut Map<String, Value>) -> Result<&'r mut Value, String> {
        let Some((last, outer)) = self.0.split_last() else {
            return Err("a field without a name".to_owned());
        };
        let mut object = root;
        for field in outer {
            let inner = entry(object, field);
            if inner.is_null() {
                *inner = Value::Object(Map::new());
            }
            let Value::Object(inner) = inner else {
                return Err(format!("{} is a message", field.name()));
            };
            object = inner;
        }
        Ok(entry(object, last))
    }
}

/// The value of a field. Both of its names are one field: a client must not be able to give it a
/// second value under the other one.
fn entry<'o>(object: &'o mut Map<String, Value>, field: &FieldDescriptor) -> &'o mut Value {
    if field.name() != field.json_name()
        && let Some(value) = object.remove(field.name())
    {
        object.entry(field.json_name()).or_insert(value);
    }
    object.entry(field.json_name()).or_insert(Value::Null)
}
