//! Fields of messages: labels, maps, groups, extensions.

use std::collections::HashSet;

use super::lexer::Token;
use super::parser::{Parsed, Parser};
use super::{FieldDeclaration, Label, Message, TypeDeclaration};
use crate::{FIELD_NUMBER_MAX, FieldType};

/// Numbers that implementations of protobuf have for themselves.
const RESERVED: std::ops::RangeInclusive<i64> = 19_000..=19_999;

impl Parser<'_> {
    /// A field, with what it declares.
    pub(super) fn field(
        &mut self,
        message: &mut Message,
        oneof: Option<usize>,
        depth: usize,
    ) -> Parsed<()> {
        let (mut field, declared) = self.field_declaration(oneof.is_some(), depth)?;
        field.oneof = oneof;
        message.fields.push(field);
        message.types.extend(declared.map(TypeDeclaration::Message));
        Ok(())
    }

    /// `extend Name { … }`
    pub(super) fn extend(&mut self, depth: usize) -> Parsed<(Vec<FieldDeclaration>, Vec<Message>)> {
        self.advance()?;
        let extendee = self.full_name("a message name", true)?;
        let (mut fields, mut groups) = (Vec::new(), Vec::new());
        self.expect('{')?;
        self.end()?;
        while !self.eat('}')? {
            let (mut field, declared) = self.field_declaration(false, depth)?;
            field.extendee.clone_from(&extendee);
            fields.push(field);
            groups.extend(declared);
            self.end()?;
        }
        Ok((fields, groups))
    }

    /// A field, and the message of a map or a group.
    fn field_declaration(
        &mut self,
        is_in_oneof: bool,
        depth: usize,
    ) -> Parsed<(FieldDeclaration, Option<Message>)> {
        let position = self.at;
        let is_proto3 = self.syntax.as_deref() == Some("proto3");
        let label = match self.token {
            Token::Word("optional") => Some(Label::Optional),
            Token::Word("required") => Some(Label::Required),
            Token::Word("repeated") => Some(Label::Repeated),
            _ => None,
        };
        if label.is_some() {
            if is_in_oneof {
                return self.error("a field of a oneof has no label");
            }
            if is_proto3 && label == Some(Label::Required) {
                return self.error("proto3 has no required fields");
            }
            self.advance()?;
        }
        let at = self.at;
        let type_name = self.full_name("a type", true)?;
        if type_name == "map" && self.is_symbol('<') {
            if label.is_some() || is_in_oneof {
                return Err(self.lexer.error(at, "a map has no label and is in no oneof"));
            }
            let (field, entry) = self.map_field(position)?;
            return Ok((field, Some(entry)));
        }
        if label.is_none() && !is_in_oneof && self.syntax.as_deref() == Some("proto2") {
            let message = "a field of proto2 has a label: optional, required or repeated";
            return Err(self.lexer.error(at, message));
        }
        let mut field = FieldDeclaration {
            label: label.unwrap_or_default(),
            is_proto3_optional: is_proto3 && label == Some(Label::Optional),
            position,
            ..FieldDeclaration::default()
        };
        if type_name == "group" {
            let group = self.group(&mut field, depth)?;
            return Ok((field, Some(group)));
        }
        field.kind = scalar(&type_name);
        if field.kind.is_none() {
            field.type_name = type_name;
        }
        field.name = self.word("a field name")?;
        self.number_and_options(&mut field)?;
        Ok((field, None))
    }

    fn number_and_options(&mut self, field: &mut FieldDeclaration) -> Parsed<()> {
        self.expect('=')?;
        let at = self.at;
        field.number = self.integer("a field number", 1, FIELD_NUMBER_MAX)?;
        if RESERVED.contains(&field.number) {
            let message = "the field numbers 19000 to 19999 are reserved";
            return Err(self.lexer.error(at, message));
        }
        field.options = self.bracketed_options()?;
        Ok(())
    }

    fn group(&mut self, field: &mut FieldDeclaration, depth: usize) -> Parsed<Message> {
        if self.syntax.as_deref() == Some("proto3") {
            return self.error("proto3 has no groups");
        }
        let position = self.at;
        let name = self.word("a group name")?;
        if !name.starts_with(|letter: char| letter.is_ascii_uppercase()) {
            let message = format!("the name of a group begins with a capital letter, not '{name}'");
            return Err(self.lexer.error(position, message));
        }
        field.kind = Some(FieldType::Group);
        field.name = name.to_ascii_lowercase();
        field.type_name.clone_from(&name);
        self.number_and_options(field)?;
        self.message_body(name, position, depth)
    }

    /// `map<KEY, VALUE> name = number`
    fn map_field(&mut self, position: usize) -> Parsed<(FieldDeclaration, Message)> {
        self.expect('<')?;
        let at = self.at;
        let key = self.word("a key type")?;
        let key_type = scalar(&key).filter(|kind| {
            !matches!(kind, FieldType::Double | FieldType::Float | FieldType::Bytes)
        });
        let Some(key_type) = key_type else {
            let message =
                format!("'{key}' is not a type of a map's keys: an integer, bool or string");
            return Err(self.lexer.error(at, message));
        };
        self.expect(',')?;
        let value = self.full_name("a value type", true)?;
        self.expect('>')?;
        let name = self.word("a field name")?;
        let entry_name = entry_name(&name);
        let part = |name: &str, number, type_name: &str| FieldDeclaration {
            name: name.to_owned(),
            number,
            kind: scalar(type_name),
            type_name: if scalar(type_name).is_some() { String::new() } else { type_name.into() },
            position: at,
            ..FieldDeclaration::default()
        };
        let entry = Message {
            name: entry_name.clone(),
            position,
            fields: vec![
                FieldDeclaration { kind: Some(key_type), ..part("key", 1, &key) },
                part("value", 2, &value),
            ],
            is_map_entry: true,
            ..Message::default()
        };
        let mut field = FieldDeclaration {
            name,
            label: Label::Repeated,
            type_name: entry_name,
            position,
            ..FieldDeclaration::default()
        };
        self.number_and_options(&mut field)?;
        Ok((field, entry))
    }

    /// Names and numbers are unique, and none is reserved.
    pub(super) fn check_fields(&self, message: &Message) -> Parsed<()> {
        let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
        let reserved_names: HashSet<&String> = message.reserved_names.iter().collect();
        let mut ranges = message.reserved_ranges.clone();
        ranges.sort_unstable();
        // The last number of all ranges up to each.
        let mut last = 0;
        for range in &mut ranges {
            last = range.1.max(last);
            range.1 = last;
        }
        for field in &message.fields {
            let (name, number) = (&field.name, field.number);
            let after = ranges.partition_point(|range| range.0 <= number);
            let reserved = after > 0 && ranges[after - 1].1 >= number;
            let message = if !names.insert(name) {
                format!("the message has a field '{name}' already")
            } else if !numbers.insert(number) {
                format!("the message has a field with the number {number} already")
            } else if reserved {
                format!("the field number {number} is reserved")
            } else if reserved_names.contains(name) {
                format!("the field name '{name}' is reserved")
            } else {
                continue;
            };
            return Err(self.lexer.error(field.position, message));
        }
        Ok(())
    }
}

/// The type that is neither a message nor an enum.
fn scalar(name: &str) -> Option<FieldType> {
    let kind = FieldType::of_name(name)?;
    (!matches!(kind, FieldType::Message | FieldType::Enum | FieldType::Group)).then_some(kind)
}

/// The message of a map field's entries: `MapFieldEntry` of `map_field`.
fn entry_name(field: &str) -> String {
    let parts = field.split('_').map(|part| {
        let (first, rest) = part.split_at(part.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    parts.collect::<String>() + "Entry"
}
