//! A JSON value in the configuration, with variables in its texts.

use settings::{Node, Reader, Schema, SchemaBuilder, Setting, Template, Value};

use message::Request;
use plugin::variables;

use crate::tree::{Json, string};

/// A value to put into a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ValueTemplate {
    /// None is given.
    Absent,
    Fixed(Json<'static>),
    Text(Template),
    List(Vec<ValueTemplate>),
    Map(Vec<(String, ValueTemplate)>),
}

impl ValueTemplate {
    pub(super) fn is_given(&self) -> bool {
        *self != ValueTemplate::Absent
    }

    /// True if a variable in it is set by filters that authenticate.
    pub(super) fn needs_authentication(&self) -> bool {
        match self {
            ValueTemplate::Absent | ValueTemplate::Fixed(_) => false,
            ValueTemplate::Text(template) => template.needs_authentication(),
            ValueTemplate::List(items) => items.iter().any(ValueTemplate::needs_authentication),
            ValueTemplate::Map(members) => {
                members.iter().any(|(_, value)| value.needs_authentication())
            }
        }
    }

    /// The value for a request. What a variable holds is a text, never a part of the syntax.
    pub(super) fn fill(&self, request: &Request) -> Json<'static> {
        match self {
            ValueTemplate::Absent => Json::Scalar("null".into()),
            ValueTemplate::Fixed(value) => value.clone(),
            ValueTemplate::Text(template) => {
                string(&String::from_utf8_lossy(&variables::fill(template, request)))
            }
            ValueTemplate::List(items) => {
                Json::Array(items.iter().map(|item| item.fill(request)).collect())
            }
            ValueTemplate::Map(members) => {
                let fill = |(name, value): &(String, ValueTemplate)| {
                    (name.clone().into(), value.fill(request))
                };
                Json::Object(members.iter().map(fill).collect())
            }
        }
    }
}

impl Setting for ValueTemplate {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::Any
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        Some(match &node.value {
            Value::Broken => return None,
            Value::Null => ValueTemplate::Fixed(Json::Scalar("null".into())),
            Value::Scalar(_) => match node.to_json() {
                serde_json::Value::String(_) => {
                    let template = Template::read(node, reader)?;
                    match template.as_literal() {
                        Some(text) => ValueTemplate::Fixed(string(text)),
                        None => ValueTemplate::Text(template),
                    }
                }
                other => ValueTemplate::Fixed(Json::Scalar(other.to_string().into())),
            },
            Value::List(items) => {
                let items = items.iter().map(|item| ValueTemplate::read(item, reader));
                ValueTemplate::List(items.collect::<Option<_>>()?)
            }
            Value::Map(entries) => {
                let read = |(key, value): &(settings::MapKey, Node)| {
                    Some((key.name.clone(), ValueTemplate::read(value, reader)?))
                };
                ValueTemplate::Map(entries.iter().map(read).collect::<Option<_>>()?)
            }
        })
    }

    fn missing() -> Option<Self> {
        Some(ValueTemplate::Absent)
    }
}
