//! The language of `.proto` files (proto2 and proto3).
//!
//! [`parse`] reads the syntax of one file. The caller loads its imports, then
//! [`SourceFile::resolve`] finds the types it refers to, and [`SourceFile::descriptor`] writes it
//! as a `FileDescriptorProto`. More lenient than `protoc`, as lua-protobuf is: semicolons may be
//! missing, and a file without `syntax` may leave out the labels of proto2. Options that
//! descriptors have no field for are left out of them; [`SourceFile::custom_options`] lists these.

mod custom_options;
mod encode;
mod fields;
mod lexer;
mod options;
mod parser;
mod resolve;

use std::fmt;

use super::FieldType;
pub use custom_options::{CustomOption, DescriptorStep};
pub use options::OptionValue;
pub use resolve::{FoundType, TypeLookup};

/// The longest file.
pub const SOURCE_BYTES: usize = 16 * 1024 * 1024;

/// What is wrong in a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// An `import`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    pub name: String,
    pub is_public: bool,
    pub is_weak: bool,
}

/// A parsed file.
#[derive(Debug, Default)]
pub struct SourceFile {
    package: String,
    syntax: Option<String>,
    imports: Vec<Import>,
    types: Vec<TypeDeclaration>,
    extensions: Vec<FieldDeclaration>,
    services: Vec<Service>,
    options: Vec<(String, OptionValue)>,
    /// Where lines end, to place the errors of [`SourceFile::resolve`].
    line_ends: Vec<usize>,
}

#[derive(Debug)]
enum TypeDeclaration {
    Message(Message),
    Enum(Enum),
}

#[derive(Debug, Default)]
struct Message {
    name: String,
    position: usize,
    fields: Vec<FieldDeclaration>,
    types: Vec<TypeDeclaration>,
    extensions: Vec<FieldDeclaration>,
    oneofs: Vec<String>,
    /// First and last numbers.
    extension_ranges: Vec<(i64, i64)>,
    reserved_ranges: Vec<(i64, i64)>,
    reserved_names: Vec<String>,
    is_map_entry: bool,
    options: Vec<(String, OptionValue)>,
}

#[derive(Debug, Default)]
struct Enum {
    name: String,
    position: usize,
    values: Vec<EnumValue>,
    /// First and last numbers.
    reserved_ranges: Vec<(i64, i64)>,
    reserved_names: Vec<String>,
    options: Vec<(String, OptionValue)>,
}

#[derive(Debug)]
struct EnumValue {
    name: String,
    number: i64,
    options: Vec<(String, OptionValue)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Label {
    #[default]
    Optional = 1,
    Required = 2,
    Repeated = 3,
}

#[derive(Debug, Default)]
struct FieldDeclaration {
    name: String,
    number: i64,
    label: Label,
    /// Scalar types; that of a name is known once it is resolved.
    kind: Option<FieldType>,
    type_name: String,
    extendee: String,
    oneof: Option<usize>,
    is_proto3_optional: bool,
    options: Vec<(String, OptionValue)>,
    position: usize,
}

#[derive(Debug)]
struct Service {
    name: String,
    methods: Vec<Method>,
    options: Vec<(String, OptionValue)>,
}

#[derive(Debug)]
struct Method {
    name: String,
    input: String,
    output: String,
    is_client_streaming: bool,
    is_server_streaming: bool,
    options: Vec<(String, OptionValue)>,
    position: usize,
}

/// Parses the text of a file.
pub fn parse(text: &str) -> Result<SourceFile, SourceError> {
    if text.len() > SOURCE_BYTES {
        let message = format!("a file may have {} MiB", SOURCE_BYTES >> 20);
        return Err(SourceError { line: 1, column: 1, message });
    }
    parser::Parser::new(text).file()
}

impl SourceFile {
    pub fn package(&self) -> &str {
        &self.package
    }

    pub fn imports(&self) -> &[Import] {
        &self.imports
    }

    /// The full name of the package, with a dot before it.
    fn scope(&self) -> String {
        if self.package.is_empty() { String::new() } else { format!(".{}", self.package) }
    }

    fn error(&self, position: usize, message: String) -> SourceError {
        let line = self.line_ends.partition_point(|end| *end < position);
        let begin = line.checked_sub(1).map_or(0, |before| self.line_ends[before] + 1);
        SourceError { line: line + 1, column: position - begin + 1, message }
    }
}
