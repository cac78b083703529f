//! The text of a new body: parsed with the configuration, filled in per message.
//!
//! Promises that a value never becomes syntax: in JSON it is a value or stands inside a string, in
//! XML and HTML it is text, in a form it is the value of one parameter. A JSON body is valid JSON,
//! whatever the values are.

use std::borrow::Cow;

use message::Request;
use plugin::MediaPattern;
use plugin::variables::{self, escape_markup, percent_encode};
use settings::{
    Node, Part, Piece, Reader, Schema, SchemaBuilder, Setting, Template, Variable, read_pieces,
};
use wire::target::query_pairs;

use crate::pointer::Pointer;
use crate::tree::{self, Json, string};

/// A template as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BodyText(Vec<Piece<Source>>);

/// Where in the old body a value is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    /// `{json /user/name}`
    Json(Pointer),
    /// `{form name}`
    Form(String),
}

/// The format of the old body, which the placeholders decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// The old body is not read.
    Unread,
    Json,
    Form,
}

/// The format of the new body, by its media type: how values are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    /// XML and HTML.
    Markup,
    Form,
    Plain,
}

/// A template compiled for a format.
#[derive(Debug)]
pub(super) struct CompiledText {
    segments: Vec<Segment>,
    format: Format,
}

#[derive(Debug)]
enum Segment {
    Text(String),
    Value {
        source: ValueSource,
        /// The place is inside a string of a JSON template.
        in_string: bool,
    },
}

#[derive(Debug)]
enum ValueSource {
    Variable(Variable),
    Body(Source),
}

/// Why a text cannot be filled in.
#[derive(Debug, PartialEq)]
pub(super) enum FillError {
    TooLarge,
    /// The old body is not what the placeholders read.
    Invalid(String),
}

impl Setting for BodyText {
    fn schema(builder: &mut SchemaBuilder) -> Schema {
        Template::schema(builder)
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        const HELP: &str = "values of the old body are {json /user/name} and {form name}";
        read_pieces(node, reader, &["{json", "{form"], Source::parse, HELP).map(BodyText)
    }
}

impl Source {
    fn parse(opening: &'static str, written: &str) -> Result<Source, String> {
        let (json, name) = (opening == "{json", written.strip_prefix(' '));
        match (json, name) {
            (true, None) if written.is_empty() => {
                "".parse().map(Source::Json).map_err(|why: &str| why.to_owned())
            }
            (true, Some(pointer)) => {
                let parsed = pointer.parse().map(Source::Json);
                parsed.map_err(|why| format!("\"{pointer}\" {why}"))
            }
            (false, Some(name)) if !name.is_empty() => Ok(Source::Form(name.to_owned())),
            (true, None) => Err(format!("{opening}{written}}} is not {{json /user/name}}")),
            (false, _) => Err(format!("{opening}{written}}} is not {{form name}}")),
        }
    }
}

impl Format {
    /// The format of a media type.
    pub(super) fn of(content_type: &str) -> Format {
        let is = |patterns: &[&str]| {
            let mut patterns = patterns.iter().filter_map(|text| text.parse::<MediaPattern>().ok());
            patterns.any(|pattern| pattern.matches(content_type.as_bytes()))
        };
        if is(&["application/json", "text/json", "*+json"]) {
            Format::Json
        } else if is(&["application/xml", "text/xml", "*+xml", "text/html"]) {
            Format::Markup
        } else if is(&["application/x-www-form-urlencoded"]) {
            Format::Form
        } else {
            Format::Plain
        }
    }
}

impl BodyText {
    /// The format that the placeholders read, or why they read none.
    pub(super) fn input(&self) -> Result<Input, &'static str> {
        let mut sources = self.0.iter().filter_map(|piece| match piece {
            Piece::Placeholder(Source::Json(_)) => Some(Input::Json),
            Piece::Placeholder(Source::Form(_)) => Some(Input::Form),
            Piece::Template(_) => None,
        });
        sources.try_fold(Input::Unread, |so_far, next| match so_far {
            Input::Unread => Ok(next),
            known if known == next => Ok(known),
            _ => Err("a body is either JSON or a form: write {json …} or {form …}, not both"),
        })
    }

    /// The template for a format, or why it is not a text of this format.
    pub(super) fn compile(&self, format: Format) -> Result<CompiledText, &'static str> {
        let mut segments = Vec::new();
        let mut strings = StringScanner::default();
        let mut sample = String::new();
        let value = |source, strings: &StringScanner, sample: &mut String| {
            sample.push_str(if strings.inside { "" } else { "null" });
            Segment::Value { source, in_string: strings.inside }
        };
        for piece in &self.0 {
            let parts = match piece {
                Piece::Placeholder(source) => {
                    let source = ValueSource::Body(source.clone());
                    segments.push(value(source, &strings, &mut sample));
                    continue;
                }
                Piece::Template(template) => &template.parts,
            };
            for part in parts {
                segments.push(match part {
                    Part::Var(variable) => {
                        value(ValueSource::Variable(variable.clone()), &strings, &mut sample)
                    }
                    Part::Text(text) => {
                        strings.read(text);
                        sample.push_str(text);
                        Segment::Text(text.clone())
                    }
                });
            }
        }
        if format == Format::Json && tree::parse(sample.as_bytes()).is_err() {
            return Err("is not JSON when its values are filled in");
        }
        Ok(CompiledText { segments, format })
    }
}

/// Finds the strings of a JSON text that comes in pieces.
#[derive(Default)]
struct StringScanner {
    inside: bool,
    escaped: bool,
}

impl StringScanner {
    fn read(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.inside => self.escaped = true,
                b'"' => self.inside = !self.inside,
                _ => {}
            }
        }
    }
}

impl CompiledText {
    /// True if a variable in it is set by filters that authenticate.
    pub(super) fn needs_authentication(&self) -> bool {
        self.segments.iter().any(|segment| match segment {
            Segment::Value { source: ValueSource::Variable(variable), .. } => {
                variable.needs_authentication()
            }
            _ => false,
        })
    }

    /// The values of the variables, in the order of the template: what of the request the text
    /// needs on another thread.
    pub(super) fn variables(&self, request: &Request) -> Vec<String> {
        let value = |segment: &Segment| match segment {
            Segment::Value { source: ValueSource::Variable(variable), .. } => {
                let value = variables::value(variable, request);
                Some(String::from_utf8_lossy(&value).into_owned())
            }
            _ => None,
        };
        self.segments.iter().filter_map(value).collect()
    }

    /// The new body, of at most `max` bytes.
    pub(super) fn fill(
        &self,
        input: Input,
        content: &[u8],
        variables: &[String],
        max: u64,
    ) -> Result<String, FillError> {
        let document = match input {
            Input::Json => tree::parse(content)
                .map(Some)
                .map_err(|error| FillError::Invalid(error.to_string()))?,
            Input::Unread | Input::Form => None,
        };
        let mut variables = variables.iter();
        let mut out = String::new();
        for segment in &self.segments {
            match segment {
                Segment::Text(text) => out.push_str(text),
                Segment::Value { source, in_string } => {
                    let value = match source {
                        ValueSource::Variable(_) => {
                            let text = variables.next().map_or("", String::as_str);
                            FieldValue::Text(Cow::Borrowed(text))
                        }
                        ValueSource::Body(Source::Form(name)) => form_value(content, name)?
                            .map_or(FieldValue::Missing, |text| FieldValue::Text(Cow::Owned(text))),
                        ValueSource::Body(Source::Json(pointer)) => {
                            let found = document.as_ref().and_then(|tree| pointer.find(tree));
                            found.map_or(FieldValue::Missing, FieldValue::Json)
                        }
                    };
                    self.write(&value, *in_string, &mut out)?;
                }
            }
            if out.len() as u64 > max {
                return Err(FillError::TooLarge);
            }
        }
        Ok(out)
    }

    fn write(
        &self,
        value: &FieldValue<'_>,
        in_string: bool,
        out: &mut String,
    ) -> Result<(), FillError> {
        if self.format == Format::Json && !in_string {
            match value {
                FieldValue::Missing => out.push_str("null"),
                FieldValue::Json(value) => value.write(out),
                FieldValue::Text(text) => string(text).write(out),
            }
            return Ok(());
        }
        let text = match value {
            FieldValue::Missing => Cow::Borrowed(""),
            FieldValue::Text(text) => Cow::Borrowed(&**text),
            FieldValue::Json(value) => value.to_text().ok_or_else(|| {
                FillError::Invalid("JSON with a string that is not text".to_owned())
            })?,
        };
        match self.format {
            Format::Json => {
                let quoted = string(&text).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
            // XML has no control characters but these (XML 1.0 2.2).
            Format::Markup => {
                let unprintable = |c: char| {
                    (c < ' ' && !"\t\n\r".contains(c)) || matches!(c, '\u{fffe}' | '\u{ffff}')
                };
                escape_markup(&text.replace(unprintable, "\u{fffd}"), out);
            }
            Format::Form => {
                let mut encoded = Vec::new();
                percent_encode(text.as_bytes(), b"", &mut encoded);
                out.push_str(&String::from_utf8_lossy(&encoded));
            }
            Format::Plain => out.push_str(&text),
        }
        Ok(())
    }
}

/// A value that stands in the new body.
enum FieldValue<'a> {
    /// The old body does not have it.
    Missing,
    Text(Cow<'a, str>),
    Json(&'a Json<'a>),
}

/// The first value of a parameter of a form.
fn form_value(content: &[u8], name: &str) -> Result<Option<String>, FillError> {
    let found = query_pairs(content).find(|(known, _)| **known == *name.as_bytes());
    found
        .map(|(_, value)| {
            let value = String::from_utf8(value.into_owned());
            value
                .map_err(|_| FillError::Invalid("a form with a value that is not UTF-8".to_owned()))
        })
        .transpose()
}
