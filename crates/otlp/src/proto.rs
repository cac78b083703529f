//! The messages of OTLP (opentelemetry/proto) that are sent and received: the parts that all
//! signals share are here.

pub(crate) mod logs;
pub(crate) mod metrics;
#[cfg(test)]
pub(crate) mod traces;

use std::borrow::Cow;

use bytes::Bytes;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Scope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    /// Text, which `bytes` writes alike: those of the program are not copied.
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4")]
    pub(crate) value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Value {
    /// As [`KeyValue::key`].
    #[prost(bytes = "bytes", tag = "1")]
    Text(Bytes),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Number(i64),
    #[prost(double, tag = "4")]
    Double(f64),
}

/// The response to an export of any signal: `ExportTracePartialSuccess` and those of metrics and
/// logs differ in the name of their first field only.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(crate) rejected: i64,
    #[prost(string, tag = "2")]
    pub(crate) error_message: String,
}

impl From<Value> for AnyValue {
    fn from(value: Value) -> AnyValue {
        AnyValue { value: Some(value) }
    }
}

impl Value {
    pub(crate) fn text(text: impl Into<Cow<'static, str>>) -> Value {
        Value::Text(bytes(text))
    }
}

fn bytes(text: impl Into<Cow<'static, str>>) -> Bytes {
    match text.into() {
        Cow::Borrowed(text) => Bytes::from_static(text.as_bytes()),
        Cow::Owned(text) => text.into(),
    }
}

impl KeyValue {
    pub(crate) fn new(key: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> KeyValue {
        KeyValue { key: bytes(key), value: Some(AnyValue::from(value.into())) }
    }

    pub(crate) fn text(
        key: impl Into<Cow<'static, str>>,
        text: impl Into<Cow<'static, str>>,
    ) -> KeyValue {
        KeyValue::new(key, Value::text(text))
    }
}

impl Resource {
    pub(crate) fn new<'a>(attributes: impl Iterator<Item = (&'a str, &'a str)>) -> Resource {
        let attribute = |(key, text): (&str, &str)| KeyValue::text(key.to_owned(), text.to_owned());
        Resource { attributes: attributes.map(attribute).collect() }
    }
}

impl Scope {
    /// The scope of everything that this server records.
    pub(crate) fn own() -> Scope {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Scope { name: "tidegate".to_owned(), version }
    }
}
