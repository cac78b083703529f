//! The schema language.
//!
//! ```text
//! packet 0xfe {                # a struct, and the number that stands for it
//!     phone { .home:long 1 }   # structs come before the fields that use them
//!     .phone:phone 1
//!     .info:info[name] 2       # a map by a field of its structs
//!     .luck:integer[] 4
//! }
//! ```
//!
//! A type is declared before it is used, so none contains itself.

use std::collections::HashMap;

use crate::limits::{ZPROTO_LEVELS, ZPROTO_SOURCE_BYTES};

const NAME_BYTES: usize = 63;
const TAG_MAX: u32 = 65_535;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    Boolean,
    Integer { bytes: usize, is_signed: bool },
    Float,
    String,
    Blob,
    Struct(usize),
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Single,
    List,
    /// By the field with this index in the struct.
    Map(usize),
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: Box<str>,
    pub(super) tag: u16,
    pub(super) kind: ValueType,
    pub(super) shape: Shape,
}

#[derive(Debug)]
pub(super) struct StructType {
    pub(super) name: Box<str>,
    /// 0 for one that no number stands for.
    pub(super) tag: u32,
    /// In the order of their tags.
    pub(super) fields: Vec<Field>,
    /// The structs that are declared in it.
    pub(super) children: Vec<usize>,
    /// How deep structs are within each other.
    levels: usize,
}

impl StructType {
    pub(super) fn field(&self, tag: u32) -> Option<&Field> {
        let at = self.fields.binary_search_by(|field| u32::from(field.tag).cmp(&tag));
        at.ok().map(|at| &self.fields[at])
    }
}

/// A checked schema.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) structs: Vec<StructType>,
    /// The structs of the top level.
    pub(super) roots: Vec<usize>,
    by_name: HashMap<Box<str>, usize>,
    by_tag: HashMap<u32, usize>,
}

/// Scalar types; of several names for a type the first one is shown.
const SCALARS: &[(&str, ValueType)] = &[
    ("int32", ValueType::Integer { bytes: 4, is_signed: true }),
    ("uint32", ValueType::Integer { bytes: 4, is_signed: false }),
    ("int64", ValueType::Integer { bytes: 8, is_signed: true }),
    ("uint64", ValueType::Integer { bytes: 8, is_signed: false }),
    ("string", ValueType::String),
    ("blob", ValueType::Blob),
    ("boolean", ValueType::Boolean),
    ("float", ValueType::Float),
    ("integer", ValueType::Integer { bytes: 4, is_signed: true }),
    ("uinteger", ValueType::Integer { bytes: 4, is_signed: false }),
    ("long", ValueType::Integer { bytes: 8, is_signed: true }),
    ("ulong", ValueType::Integer { bytes: 8, is_signed: false }),
    ("short", ValueType::Integer { bytes: 2, is_signed: true }),
    ("ushort", ValueType::Integer { bytes: 2, is_signed: false }),
    ("byte", ValueType::Integer { bytes: 1, is_signed: true }),
    ("ubyte", ValueType::Integer { bytes: 1, is_signed: false }),
];

impl Schema {
    /// A struct of the top level.
    pub(super) fn position(&self, name: &[u8]) -> Option<usize> {
        self.by_name.get(std::str::from_utf8(name).ok()?).copied()
    }

    pub(super) fn named(&self, name: &[u8]) -> Option<&StructType> {
        self.position(name).map(|at| &self.structs[at])
    }

    pub(super) fn tagged(&self, tag: i64) -> Option<usize> {
        self.by_tag.get(&u32::try_from(tag).ok()?).copied()
    }

    /// The names of the first structs, for errors.
    pub(super) fn names(&self) -> String {
        let names = self.roots.iter().take(20).map(|at| &*self.structs[*at].name);
        names.collect::<Vec<&str>>().join(", ")
    }

    pub(super) fn type_name(&self, field: &Field) -> &str {
        if let ValueType::Struct(at) = field.kind {
            return &self.structs[at].name;
        }
        SCALARS.iter().find(|scalar| scalar.1 == field.kind).map_or("", |scalar| scalar.0)
    }

    /// The field that the elements of a map are found by.
    pub(super) fn map_key(&self, field: &Field) -> Option<&Field> {
        match (field.shape, field.kind) {
            (Shape::Map(key), ValueType::Struct(of)) => self.structs[of].fields.get(key),
            _ => None,
        }
    }
}

/// The error of a file that is too long.
fn too_long() -> String {
    format!("a schema may have {} MiB", ZPROTO_SOURCE_BYTES >> 20)
}

/// Checks the text of a schema; an error begins with its line.
pub(super) fn parse(text: &[u8]) -> Result<Schema, String> {
    if text.len() > ZPROTO_SOURCE_BYTES {
        return Err(too_long());
    }
    let mut parser =
        Parser { text, at: 0, line: 1, schema: Schema::default(), scopes: vec![HashMap::new()] };
    let parsed = parser.file();
    parsed.map_err(|reason| format!("line {}: {reason}", parser.line))?;
    Ok(parser.schema)
}

type Parsed<T> = Result<T, String>;

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
    schema: Schema,
    /// The structs that are declared so far on each level around the current position.
    scopes: Vec<HashMap<Box<str>, usize>>,
}

impl Parser<'_> {
    /// The next byte that is neither a blank nor in a comment.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.text.get(self.at)? {
                b'\n' => self.line += 1,
                b'#' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                    continue;
                }
                byte if byte.is_ascii_whitespace() || byte == 0x0b => {}
                byte => return Some(byte),
            }
            self.at += 1;
        }
    }

    fn expected<T>(&mut self, what: &str) -> Parsed<T> {
        let got = match self.peek() {
            None => "the end of the text".to_owned(),
            Some(byte) if byte.is_ascii_alphanumeric() => {
                format!("'{}'", self.take_while(|byte| byte.is_ascii_alphanumeric()))
            }
            Some(byte) => format!("'{}'", std::ascii::escape_default(byte)),
        };
        Err(format!("{what} expected, got {got}"))
    }

    fn take_while(&mut self, is_part: impl Fn(u8) -> bool) -> &str {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| !is_part(*byte)).unwrap_or(rest.len());
        self.at += length;
        std::str::from_utf8(&rest[..length]).unwrap_or_default()
    }

    fn is(&mut self, symbol: u8) -> bool {
        self.peek() == Some(symbol)
    }

    fn eat(&mut self, symbol: u8) -> bool {
        let is_there = self.is(symbol);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, symbol: char) -> Parsed<()> {
        if self.eat(symbol as u8) { Ok(()) } else { self.expected(&format!("'{symbol}'")) }
    }

    fn is_name(&mut self) -> bool {
        self.peek().is_some_and(|byte| byte.is_ascii_alphabetic())
    }

    fn name(&mut self, what: &str) -> Parsed<Box<str>> {
        if !self.is_name() {
            return self.expected(what);
        }
        let name = self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if name.len() > NAME_BYTES {
            return Err(format!("a name may have {NAME_BYTES} letters"));
        }
        Ok(name.into())
    }

    fn is_digit(&mut self) -> bool {
        self.peek().is_some_and(|byte| byte.is_ascii_digit())
    }

    /// A number as in C: decimal, `0x` and hexadecimal, `0` and octal.
    fn number(&mut self, what: &str) -> Parsed<u32> {
        if !self.is_digit() {
            return self.expected(what);
        }
        let word = self.take_while(|byte| byte.is_ascii_alphanumeric()).to_owned();
        let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
        let octal = word.strip_prefix('0').filter(|digits| !digits.is_empty());
        let number = match (hex, octal) {
            (Some(hex), _) => u32::from_str_radix(hex, 16),
            (None, Some(octal)) => u32::from_str_radix(octal, 8),
            (None, None) => word.parse(),
        };
        number.map_err(|_| format!("malformed number '{word}'"))
    }

    fn file(&mut self) -> Parsed<()> {
        loop {
            let at = self.structure(0)?;
            self.schema.roots.push(at);
            if self.peek().is_none() {
                return Ok(());
            }
        }
    }

    /// A struct, with a number if it is of the top level.
    fn structure(&mut self, level: usize) -> Parsed<usize> {
        if level >= ZPROTO_LEVELS {
            return Err(format!("more than {ZPROTO_LEVELS} structs within each other"));
        }
        let name = self.name("a struct name")?;
        let is_numbered = level == 0 && self.is_digit();
        let tag = if is_numbered { self.number("a tag")? } else { 0 };
        if self.scopes.last().is_some_and(|scope| scope.contains_key(&name)) {
            return Err(format!("a struct '{name}' is declared already"));
        }
        if tag != 0 && self.schema.by_tag.contains_key(&tag) {
            return Err(format!("a struct with the tag {tag} is declared already"));
        }
        self.expect('{')?;
        self.scopes.push(HashMap::new());
        let mut children = Vec::new();
        while self.is_name() {
            children.push(self.structure(level + 1)?);
        }
        let mut fields: Vec<Field> = Vec::new();
        while self.is(b'.') {
            let field = self.field(&fields)?;
            fields.push(field);
        }
        self.scopes.pop();
        self.expect('}')?;
        let levels = fields.iter().map(|field| match field.kind {
            ValueType::Struct(of) => self.schema.structs[of].levels,
            _ => 0,
        });
        let levels = levels.max().unwrap_or(0) + 1;
        if levels > ZPROTO_LEVELS {
            return Err(format!(
                "'{name}' has more than {ZPROTO_LEVELS} structs within each other"
            ));
        }
        let at = self.schema.structs.len();
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.clone(), at);
        }
        if level == 0 {
            self.schema.by_name.insert(name.clone(), at);
        }
        if tag != 0 {
            self.schema.by_tag.insert(tag, at);
        }
        self.schema.structs.push(StructType { name, tag, fields, children, levels });
        Ok(at)
    }

    /// `.name:type 1`, `.name:type[] 1`, `.name:struct[key] 1`
    fn field(&mut self, before: &[Field]) -> Parsed<Field> {
        self.expect('.')?;
        let name = self.name("a field name")?;
        self.expect(':')?;
        let type_name = self.name("a type")?;
        let mut kind = self.value_type(&type_name)?;
        let mut shape = Shape::Single;
        if self.eat(b'[') {
            let key = if self.is_name() { Some(self.name("a field name")?) } else { None };
            self.expect(']')?;
            shape = match key {
                Some(key) => Shape::Map(self.key(kind, &key)?),
                None => Shape::List,
            };
        }
        // Lists of bytes are strings.
        if let (ValueType::Integer { bytes: 1, is_signed }, Shape::List) = (kind, shape) {
            kind = if is_signed { ValueType::String } else { ValueType::Blob };
            shape = Shape::Single;
        }
        let tag = self.number("a tag")?;
        let last = before.last().map_or(0, |field| u32::from(field.tag));
        let tag = match u16::try_from(tag) {
            Ok(small) if tag > last => small,
            Ok(_) if tag == 0 => return Err("a tag is greater than 0".to_owned()),
            Ok(_) => {
                return Err(format!("the tag {tag} is not greater than the one before, {last}"));
            }
            Err(_) => return Err(format!("the tag {tag} is greater than {TAG_MAX}")),
        };
        if before.iter().any(|field| field.name == name) {
            return Err(format!("a field '{name}' is declared already"));
        }
        Ok(Field { name, tag, kind, shape })
    }

    fn value_type(&self, name: &str) -> Parsed<ValueType> {
        if let Some(scalar) = SCALARS.iter().find(|scalar| scalar.0 == name) {
            return Ok(scalar.1);
        }
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        let found = found.ok_or_else(|| {
            format!("unknown type '{name}': a struct is declared before it is used")
        })?;
        Ok(ValueType::Struct(*found))
    }

    /// The index of the field that a map is keyed by.
    fn key(&self, kind: ValueType, name: &str) -> Parsed<usize> {
        let ValueType::Struct(of) = kind else {
            return Err(format!("only structs can be in a map by a field, here '{name}'"));
        };
        let of = &self.schema.structs[of];
        let Some(at) = of.fields.iter().position(|field| *field.name == *name) else {
            return Err(format!("struct '{}' has no field '{name}'", of.name));
        };
        let field = &of.fields[at];
        if field.shape != Shape::Single || matches!(field.kind, ValueType::Struct(_)) {
            return Err(format!("field '{name}' of '{}' cannot be the key of a map", of.name));
        }
        Ok(at)
    }
}
