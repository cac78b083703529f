//! The settings of Lua in a configuration, and the files they name.
//!
//! Promises that a missing file or a syntax error is an error of the configuration, with file and
//! line, and that the file is watched for changes. Does not run the file.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use mlua::Lua;
use plugin::Mentions;
use settings::{
    Address, FilePath, Node, Reader, Schema, SchemaBuilder, Setting, Size, Span, Spanned,
};

use super::mentions;
use lua_vm::errors;

/// Responds with a Lua function.
///
/// The file returns `function(request, response)`. It may wait without blocking other requests. A
/// change of the file is a reload: requests in flight end in the old version.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = file)]
pub(crate) struct Handler {
    /// The file.
    #[setting(example = "hello.lua")]
    pub(crate) file: FilePath,
    /// Memory limit of a worker's VM; the largest of all files counts. A VM that still exceeds it
    /// after a full collection is replaced.
    #[setting(default = "64MiB", range = "4MiB"..="1TiB")]
    pub(crate) memory: Size,
    /// Lua instructions of one turn, after which its coroutine is ended. A turn with 50M or more is
    /// counted once it has run for a quarter of a second, because counting is slow.
    #[setting(default = "50M")]
    pub(crate) budget: Budget,
}

/// Passes requests and responses through Lua functions.
///
/// The file returns `{ request = fn, response = fn, body = fn }`, each of them optional.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = file)]
pub(crate) struct Filter {
    /// The file.
    #[setting(example = "headers.lua")]
    pub(crate) file: FilePath,
    /// As for a handler.
    #[setting(default = "64MiB", range = "4MiB"..="1TiB")]
    pub(crate) memory: Size,
    /// As for a handler.
    #[setting(default = "50M")]
    pub(crate) budget: Budget,
}

/// A program that speaks TCP itself. The file returns `function(connection, address)`, which is
/// called for each connection on every worker; the connection ends when it does.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct ProgramSettings {
    /// The address to listen on.
    #[setting(example = "127.0.0.1:6380")]
    pub bind: Spanned<Address>,
    /// The file.
    #[setting(example = "ping.lua")]
    pub lua: Spanned<FilePath>,
}

/// Permissions of scripts in the server.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_serving)]
pub struct ServingSettings {
    /// Allows `require` to load C modules, which have full access to the server.
    #[setting(default = false)]
    pub native_modules: bool,
    /// Where the entries of `tide.shared` are.
    #[setting(default = "memory")]
    pub shared: SharedPlace,
}

/// Where the entries of `tide.shared` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub enum SharedPlace {
    /// In the memory of this server, for all its workers.
    Memory,
    /// In the Redis or Valkey of the section `shared`, for all servers with its prefix. Calls wait.
    Redis,
}

fn check_serving(settings: &ServingSettings, node: &Node, reader: &mut Reader<'_>) {
    if settings.shared == SharedPlace::Redis {
        reader.uses_shared(node.get("shared").unwrap_or(node).span);
    }
}

/// A number of instructions: `50M`, `100k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Budget(u64);

const UNITS: &[(&str, u64)] = &[("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("", 1)];

impl Budget {
    pub(crate) fn instructions(self) -> u64 {
        self.0
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = UNITS.iter().find(|(unit, _)| *unit == &text[digits.len()..]);
        let number: Option<u64> = digits.parse().ok();
        match (number, unit) {
            (Some(number), Some((_, factor))) if number > 0 => {
                number.checked_mul(*factor).map(Budget).ok_or_else(|| "is too many".to_owned())
            }
            _ => Err("is not a number of instructions such as 50M or 100k".to_owned()),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, factor): &&(&str, u64)| self.0.is_multiple_of(*factor);
        let largest = UNITS.iter().filter(fits).max_by_key(|(_, factor)| *factor);
        let (unit, factor) = largest.copied().unwrap_or(("", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

impl Setting for Budget {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("number of instructions", "^[0-9]+[kMG]?$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a number of instructions such as 50M")
    }
}

/// A file that was read and has valid syntax.
pub(crate) struct ScriptSource {
    pub(crate) path: PathBuf,
    pub(crate) text: Vec<u8>,
    pub(crate) memory: usize,
    pub(crate) budget: u64,
    pub(crate) mentions: Mentions,
}

impl ScriptSource {
    pub(crate) fn read(
        span: Span,
        path: &FilePath,
        memory: Size,
        budget: u64,
        reader: &mut Reader<'_>,
    ) -> Option<Arc<ScriptSource>> {
        let text = reader.read_file(span, path)?;
        let path: PathBuf = path.to_path_buf();
        let name = path.display().to_string();
        let chunk = format!("@{name}");
        if let Err(error) = Lua::new().load(&text[..]).set_name(chunk).into_function() {
            let why = errors::text(&error);
            reader.error(span, why.strip_prefix("syntax error: ").unwrap_or(&why).to_owned());
            return None;
        }
        let mentions = mentions::find(&text, &name, span);
        Some(Arc::new(ScriptSource { path, text, memory: memory.bytes_usize(), budget, mentions }))
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, Filter, Handler, ProgramSettings, ServingSettings};

    #[test]
    fn the_declarations_hold() {
        settings::verify::<Handler>().unwrap();
        settings::verify::<Filter>().unwrap();
        settings::verify::<ProgramSettings>().unwrap();
        settings::verify::<ServingSettings>().unwrap();
    }

    #[test]
    fn a_budget_reads_back() {
        for text in ["50M", "1500k", "7", "2G"] {
            assert_eq!(text.parse::<Budget>().unwrap().to_string(), text);
        }
        for text in ["", "M", "-1", "0", "5T", "99999999999999G"] {
            assert!(text.parse::<Budget>().is_err(), "{text}");
        }
    }
}
