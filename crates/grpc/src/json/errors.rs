//! Failed calls as JSON: `google.rpc.Status` with its details.

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{alphabet, engine::DecodePaddingMode};
use message::{Headers, Response};
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions, Value};
use wire::grpc::{self, Code};

const STATUS: &str = "google.rpc.Status";
const ANY_FILE: &str = "google/protobuf/any.proto";

/// Binary metadata may be padded or not (PROTOCOL-HTTP2.md).
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Writes statuses as JSON, with details of the types that the descriptor file has.
pub(super) struct ErrorWriter {
    status: MessageDescriptor,
}

impl ErrorWriter {
    /// Adds the message `google.rpc.Status` to the pool, unless the file contains it.
    pub(super) fn new(pool: &mut DescriptorPool) -> Result<ErrorWriter, String> {
        if pool.get_message_by_name(STATUS).is_none() {
            let known = DescriptorPool::global();
            if pool.get_file_by_name(ANY_FILE).is_none()
                && let Some(any) = known.get_file_by_name(ANY_FILE)
            {
                let added = pool.add_file_descriptor_proto(any.file_descriptor_proto().clone());
                added.map_err(|error| error.to_string())?;
            }
            let added = pool.add_file_descriptor_proto(status_file());
            added.map_err(|error| error.to_string())?;
        }
        let status = pool.get_message_by_name(STATUS);
        Ok(ErrorWriter { status: status.ok_or_else(|| format!("{STATUS} is missing"))? })
    }

    /// The status that trailers hold, as JSON.
    pub(super) fn of_trailers(&self, code: Code, trailers: &Headers) -> Vec<u8> {
        let details = trailers.get(grpc::STATUS_DETAILS);
        let details = details.and_then(|value| BASE64.decode(value).ok());
        let status = details.and_then(|bytes| self.decode(code, &bytes));
        status.unwrap_or_else(|| {
            let message = trailers.get(grpc::MESSAGE).unwrap_or_default();
            self.plain(code, &grpc::decode_message(message))
        })
    }

    /// A status with details; `None` if it contradicts the trailer or is malformed.
    fn decode(&self, code: Code, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut status = DynamicMessage::decode(self.status.clone(), bytes).ok()?;
        if status.get_field_by_name("code")?.as_i32()? != i32::from(code.number()) {
            return None;
        }
        let pool = self.status.parent_pool();
        if let Some(details) = status.get_field_by_name_mut("details").and_then(Value::as_list_mut)
        {
            details.retain(|detail| {
                // Only what the descriptor file describes can be written as JSON.
                let url = detail.as_message().and_then(|any| any.get_field_by_name("type_url"));
                let url = url.as_ref().and_then(|url| url.as_str()).unwrap_or_default();
                let name = url.rsplit('/').next().unwrap_or_default();
                pool.get_message_by_name(name).is_some()
            });
        }
        json(&status)
    }

    fn plain(&self, code: Code, message: &str) -> Vec<u8> {
        let mut status = DynamicMessage::new(self.status.clone());
        status.set_field_by_name("code", Value::I32(i32::from(code.number())));
        status.set_field_by_name("message", Value::String(message.to_owned()));
        // Numbers and texts can always be written.
        json(&status).unwrap_or_default()
    }

    /// The response to a failed call.
    pub(super) fn response(&self, code: Code, trailers: &Headers) -> Response {
        Response::json(code.http_status(), bytes::Bytes::from(self.of_trailers(code, trailers)))
    }

    /// The response to a request that cannot be translated; the text is about what the client sent.
    pub(super) fn rejection(&self, status: u16, code: Code, message: &str) -> Response {
        Response::json(status, bytes::Bytes::from(self.plain(code, message)))
    }
}

fn json(status: &DynamicMessage) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let options = SerializeOptions::new().skip_default_fields(false);
    let mut serializer = serde_json::Serializer::new(&mut out);
    status.serialize_with_options(&mut serializer, &options).ok()?;
    Some(out)
}

/// google/rpc/status.proto
fn status_file() -> FileDescriptorProto {
    let field = |name: &str, number, label: Label, kind: Type, type_name: Option<&str>| {
        FieldDescriptorProto {
            name: Some(name.to_owned()),
            number: Some(number),
            label: Some(label.into()),
            r#type: Some(kind.into()),
            type_name: type_name.map(str::to_owned),
            ..FieldDescriptorProto::default()
        }
    };
    let any = Some(".google.protobuf.Any");
    FileDescriptorProto {
        name: Some("google/rpc/status.proto".to_owned()),
        package: Some("google.rpc".to_owned()),
        dependency: vec![ANY_FILE.to_owned()],
        message_type: vec![DescriptorProto {
            name: Some("Status".to_owned()),
            field: vec![
                field("code", 1, Label::Optional, Type::Int32, None),
                field("message", 2, Label::Optional, Type::String, None),
                field("details", 3, Label::Repeated, Type::Message, any),
            ],
            ..DescriptorProto::default()
        }],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}
