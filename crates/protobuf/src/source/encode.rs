//! Writes a file as a `FileDescriptorProto`.

use super::options::{
    self, OF_ENUM, OF_ENUM_VALUE, OF_FIELD, OF_FILE, OF_MESSAGE, OF_METHOD, OF_SERVICE, OptionValue,
};
use super::{Enum, FieldDeclaration, Message, Method, Service, SourceFile, TypeDeclaration};
use crate::FieldType;
use crate::writer::{field_bytes, field_integer};

impl SourceFile {
    /// The descriptor of the file under this name.
    pub fn descriptor(&self, name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        field_bytes(&mut out, 1, name.as_bytes());
        if !self.package.is_empty() {
            field_bytes(&mut out, 2, self.package.as_bytes());
        }
        for import in &self.imports {
            field_bytes(&mut out, 3, import.name.as_bytes());
        }
        write_types(&mut out, &self.types, (4, 5));
        for service in &self.services {
            field_bytes(&mut out, 6, &service_descriptor(service));
        }
        for field in &self.extensions {
            field_bytes(&mut out, 7, &field_descriptor(field, None));
        }
        write_options(&mut out, 8, options::encode(&self.options, OF_FILE));
        for (index, import) in self.imports.iter().enumerate() {
            for (number, is_set) in [(10, import.is_public), (11, import.is_weak)] {
                if is_set {
                    field_integer(&mut out, number, index as i64);
                }
            }
        }
        if let Some(syntax) = &self.syntax {
            field_bytes(&mut out, 12, syntax.as_bytes());
        }
        out
    }
}

fn write_options(out: &mut Vec<u8>, number: u32, content: Vec<u8>) {
    if !content.is_empty() {
        field_bytes(out, number, &content);
    }
}

/// Writes messages and enums, which are fields of these two numbers.
fn write_types(out: &mut Vec<u8>, types: &[TypeDeclaration], numbers: (u32, u32)) {
    for declared in types {
        match declared {
            TypeDeclaration::Message(message) => {
                field_bytes(out, numbers.0, &message_descriptor(message));
            }
            TypeDeclaration::Enum(declared) => {
                field_bytes(out, numbers.1, &enum_descriptor(declared));
            }
        }
    }
}

fn message_descriptor(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    field_bytes(&mut out, 1, message.name.as_bytes());
    // A field that is optional in proto3 is alone in a oneof behind the declared ones.
    let mut synthetic = Vec::new();
    for field in &message.fields {
        let index = field.is_proto3_optional.then(|| {
            synthetic.push(format!("_{}", field.name));
            message.oneofs.len() + synthetic.len() - 1
        });
        field_bytes(&mut out, 2, &field_descriptor(field, index.or(field.oneof)));
    }
    write_types(&mut out, &message.types, (3, 4));
    for (first, last) in &message.extension_ranges {
        field_bytes(&mut out, 5, &range(*first, *last));
    }
    for field in &message.extensions {
        field_bytes(&mut out, 6, &field_descriptor(field, None));
    }
    let mut content = options::encode(&message.options, OF_MESSAGE);
    if message.is_map_entry {
        field_integer(&mut content, 7, 1);
    }
    write_options(&mut out, 7, content);
    for name in message.oneofs.iter().chain(&synthetic) {
        let mut oneof = Vec::new();
        field_bytes(&mut oneof, 1, name.as_bytes());
        field_bytes(&mut out, 8, &oneof);
    }
    for (first, last) in &message.reserved_ranges {
        field_bytes(&mut out, 9, &range(*first, *last));
    }
    for name in &message.reserved_names {
        field_bytes(&mut out, 10, name.as_bytes());
    }
    out
}

/// A range of numbers; its end is the number behind it.
fn range(first: i64, last: i64) -> Vec<u8> {
    let mut out = Vec::new();
    field_integer(&mut out, 1, first);
    field_integer(&mut out, 2, last + 1);
    out
}

fn field_descriptor(field: &FieldDeclaration, oneof: Option<usize>) -> Vec<u8> {
    let mut out = Vec::new();
    field_bytes(&mut out, 1, field.name.as_bytes());
    if !field.extendee.is_empty() {
        field_bytes(&mut out, 2, field.extendee.as_bytes());
    }
    field_integer(&mut out, 3, field.number);
    field_integer(&mut out, 4, field.label as i64);
    if let Some(kind) = field.kind {
        field_integer(&mut out, 5, kind as i64);
    }
    if !field.type_name.is_empty() {
        field_bytes(&mut out, 6, field.type_name.as_bytes());
    }
    let option = |name: &str| field.options.iter().find(|option| option.0 == name);
    if let Some((_, value)) = option("default") {
        field_bytes(&mut out, 7, &default_text(field.kind, value));
    }
    write_options(&mut out, 8, options::encode(&field.options, OF_FIELD));
    if let Some(index) = oneof {
        field_integer(&mut out, 9, index as i64);
    }
    if let Some((_, OptionValue::Text(name))) = option("json_name") {
        field_bytes(&mut out, 10, name);
    }
    if field.is_proto3_optional {
        field_integer(&mut out, 17, 1);
    }
    out
}

/// A default as a descriptor has it; bytes have escapes.
fn default_text(kind: Option<FieldType>, value: &OptionValue) -> Vec<u8> {
    match value {
        OptionValue::Text(bytes) if kind == Some(FieldType::Bytes) => {
            bytes.iter().flat_map(|byte| escape(*byte)).collect()
        }
        OptionValue::Text(bytes) => String::from_utf8_lossy(bytes).into_owned().into_bytes(),
        other => other.text().into_bytes(),
    }
}

/// A byte as `protoc` writes it in the default of bytes.
fn escape(byte: u8) -> Vec<u8> {
    match byte {
        b'\n' => b"\\n".to_vec(),
        b'\r' => b"\\r".to_vec(),
        b'\t' => b"\\t".to_vec(),
        b'"' | b'\'' | b'\\' => vec![b'\\', byte],
        0x20..=0x7e => vec![byte],
        _ => format!("\\{byte:03o}").into_bytes(),
    }
}

fn enum_descriptor(declared: &Enum) -> Vec<u8> {
    let mut out = Vec::new();
    field_bytes(&mut out, 1, declared.name.as_bytes());
    for value in &declared.values {
        let mut content = Vec::new();
        field_bytes(&mut content, 1, value.name.as_bytes());
        field_integer(&mut content, 2, value.number);
        write_options(&mut content, 3, options::encode(&value.options, OF_ENUM_VALUE));
        field_bytes(&mut out, 2, &content);
    }
    write_options(&mut out, 3, options::encode(&declared.options, OF_ENUM));
    for (first, last) in &declared.reserved_ranges {
        // Unlike that of a message, the end is a part of the range.
        field_bytes(&mut out, 4, &range(*first, *last - 1));
    }
    for name in &declared.reserved_names {
        field_bytes(&mut out, 5, name.as_bytes());
    }
    out
}

fn service_descriptor(service: &Service) -> Vec<u8> {
    let mut out = Vec::new();
    field_bytes(&mut out, 1, service.name.as_bytes());
    for method in &service.methods {
        field_bytes(&mut out, 2, &method_descriptor(method));
    }
    write_options(&mut out, 3, options::encode(&service.options, OF_SERVICE));
    out
}

fn method_descriptor(method: &Method) -> Vec<u8> {
    let mut out = Vec::new();
    field_bytes(&mut out, 1, method.name.as_bytes());
    field_bytes(&mut out, 2, method.input.as_bytes());
    field_bytes(&mut out, 3, method.output.as_bytes());
    write_options(&mut out, 4, options::encode(&method.options, OF_METHOD));
    for (number, is_set) in [(5, method.is_client_streaming), (6, method.is_server_streaming)] {
        if is_set {
            field_integer(&mut out, number, 1);
        }
    }
    out
}
