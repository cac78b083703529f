//! Options: their syntax, and those that descriptors have fields for.

use super::lexer::Token;
use super::parser::{Parsed, Parser};
use crate::writer::{field_bytes, field_integer};

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// The name of a value of an enum, `true`, `false`, `inf` or `nan`.
    Word(String),
    Integer(i128),
    Float(f64),
    Text(Vec<u8>),
    /// A message in text format, which no standard option has, with its braces.
    Aggregate(String),
}

impl OptionValue {
    /// A number or a word as a descriptor has it in text.
    pub(super) fn text(&self) -> String {
        match self {
            OptionValue::Word(word) => word.clone(),
            OptionValue::Integer(number) => number.to_string(),
            OptionValue::Float(number) => number.to_string(),
            OptionValue::Text(_) | OptionValue::Aggregate(_) => String::new(),
        }
    }
}

impl Parser<'_> {
    /// `option NAME = VALUE`
    pub(super) fn option(&mut self) -> Parsed<(String, OptionValue)> {
        self.advance()?;
        self.assignment()
    }

    /// `[NAME = VALUE, …]`, if there is one.
    pub(super) fn bracketed_options(&mut self) -> Parsed<Vec<(String, OptionValue)>> {
        let mut options = Vec::new();
        if !self.eat('[')? || self.eat(']')? {
            return Ok(options);
        }
        loop {
            options.push(self.assignment()?);
            if !self.eat(',')? {
                self.expect(']')?;
                return Ok(options);
            }
        }
    }

    fn assignment(&mut self) -> Parsed<(String, OptionValue)> {
        let mut name = String::new();
        loop {
            if self.eat('(')? {
                name.push('(');
                name.push_str(&self.full_name("an option name", true)?);
                name.push(')');
                self.expect(')')?;
            } else {
                name.push_str(&self.word("an option name")?);
            }
            if !self.eat('.')? {
                break;
            }
            name.push('.');
        }
        self.expect('=')?;
        Ok((name, self.constant()?))
    }

    fn constant(&mut self) -> Parsed<OptionValue> {
        let is_negative = self.eat('-')?;
        if !is_negative {
            self.eat('+')?;
        }
        let value = match &self.token {
            Token::Integer(number) if is_negative => OptionValue::Integer(-i128::from(*number)),
            Token::Integer(number) => OptionValue::Integer(i128::from(*number)),
            Token::Float(number) => OptionValue::Float(if is_negative { -number } else { *number }),
            Token::Word(word) if is_negative => OptionValue::Word(format!("-{word}")),
            Token::Word(_) => return Ok(OptionValue::Word(self.full_name("a value", false)?)),
            Token::Text(_) => return Ok(OptionValue::Text(self.text()?)),
            Token::Symbol('{') => return self.aggregate(),
            _ => return self.expected("a value"),
        };
        self.advance()?;
        Ok(value)
    }

    fn aggregate(&mut self) -> Parsed<OptionValue> {
        let (begin, mut open) = (self.at, 0_usize);
        loop {
            let at = self.at;
            match self.advance()? {
                Token::Symbol('{') => open += 1,
                Token::Symbol('}') => open -= 1,
                Token::End => return self.error("unfinished value: '}' expected"),
                _ => {}
            }
            if open == 0 {
                let text = self.lexer.text.get(begin..=at).unwrap_or_default();
                return Ok(OptionValue::Aggregate(text.to_owned()));
            }
        }
    }
}

/// What the values of an option are.
pub(super) enum Form {
    Bool,
    Text,
    /// Names with their numbers.
    Names(&'static [(&'static str, i64)]),
}

/// A standard option: its name, its number in the descriptor's options, its values.
pub(super) type Known = (&'static str, u32, Form);

pub(super) const OF_FILE: &[Known] = &[
    ("java_package", 1, Form::Text),
    ("java_outer_classname", 8, Form::Text),
    ("optimize_for", 9, Form::Names(&[("SPEED", 1), ("CODE_SIZE", 2), ("LITE_RUNTIME", 3)])),
    ("java_multiple_files", 10, Form::Bool),
    ("go_package", 11, Form::Text),
    ("cc_generic_services", 16, Form::Bool),
    ("java_generic_services", 17, Form::Bool),
    ("py_generic_services", 18, Form::Bool),
    ("java_generate_equals_and_hash", 20, Form::Bool),
    ("deprecated", 23, Form::Bool),
    ("java_string_check_utf8", 27, Form::Bool),
    ("cc_enable_arenas", 31, Form::Bool),
    ("objc_class_prefix", 36, Form::Text),
    ("csharp_namespace", 37, Form::Text),
    ("swift_prefix", 39, Form::Text),
    ("php_class_prefix", 40, Form::Text),
    ("php_namespace", 41, Form::Text),
    ("php_metadata_namespace", 44, Form::Text),
    ("ruby_package", 45, Form::Text),
];

pub(super) const OF_MESSAGE: &[Known] = &[
    ("message_set_wire_format", 1, Form::Bool),
    ("no_standard_descriptor_accessor", 2, Form::Bool),
    ("deprecated", 3, Form::Bool),
    ("deprecated_legacy_json_field_conflicts", 11, Form::Bool),
];

pub(super) const OF_FIELD: &[Known] = &[
    ("ctype", 1, Form::Names(&[("STRING", 0), ("CORD", 1), ("STRING_PIECE", 2)])),
    ("packed", 2, Form::Bool),
    ("deprecated", 3, Form::Bool),
    ("lazy", 5, Form::Bool),
    ("jstype", 6, Form::Names(&[("JS_NORMAL", 0), ("JS_STRING", 1), ("JS_NUMBER", 2)])),
    ("weak", 10, Form::Bool),
    ("unverified_lazy", 15, Form::Bool),
    ("debug_redact", 16, Form::Bool),
];

pub(super) const OF_ENUM: &[Known] = &[
    ("allow_alias", 2, Form::Bool),
    ("deprecated", 3, Form::Bool),
    ("deprecated_legacy_json_field_conflicts", 6, Form::Bool),
];

pub(super) const OF_ENUM_VALUE: &[Known] =
    &[("deprecated", 1, Form::Bool), ("debug_redact", 3, Form::Bool)];

pub(super) const OF_SERVICE: &[Known] = &[("deprecated", 33, Form::Bool)];

pub(super) const OF_METHOD: &[Known] = &[
    ("deprecated", 33, Form::Bool),
    (
        "idempotency_level",
        34,
        Form::Names(&[("IDEMPOTENCY_UNKNOWN", 0), ("NO_SIDE_EFFECTS", 1), ("IDEMPOTENT", 2)]),
    ),
];

/// The standard options of `given` as the content of a message of options.
pub(super) fn encode(given: &[(String, OptionValue)], known: &[Known]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in given {
        let Some((_, number, form)) = known.iter().find(|known| known.0 == name) else { continue };
        match (form, value) {
            (Form::Bool, OptionValue::Word(word)) => {
                field_integer(&mut out, *number, i64::from(word == "true"));
            }
            (Form::Text, OptionValue::Text(text)) => field_bytes(&mut out, *number, text),
            (Form::Names(names), OptionValue::Word(word)) => {
                if let Some((_, value)) = names.iter().find(|(name, _)| name == word) {
                    field_integer(&mut out, *number, *value);
                }
            }
            _ => {}
        }
    }
    out
}
