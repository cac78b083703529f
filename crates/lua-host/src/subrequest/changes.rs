//! The changes of a subrequest that a script requests.
//!
//! Promises that an invalid method, target or field is an error that names function and option, and
//! that a target cannot inject into the request: spaces and control characters are rejected.

use std::time::Duration;

use message::{Headers, Request, Target};
use mlua::{Error, LuaString, Result, Table, Value};
use wire::{Known, Method};

use lua_std::http::fields;

pub(crate) struct Changes {
    method: Option<Method>,
    /// Path and query as they are sent.
    target: Option<Target>,
    /// The path alone, encoded.
    path: Option<Vec<u8>>,
    /// The raw query alone; `None` if it is empty.
    query: Option<Vec<u8>>,
    headers: Headers,
    removed: Vec<Vec<u8>>,
    pub(crate) within: Option<Duration>,
}

impl Changes {
    /// Reads a table whose keys and types the Lua part has checked.
    pub(crate) fn read(function: &str, table: &Table) -> Result<Changes> {
        let wrong = |why: &str| Error::runtime(format!("bad argument to '{function}' ({why})"));
        let text = |key: &str| -> Result<Option<Vec<u8>>> {
            let text: Option<LuaString> = table.get(key)?;
            Ok(text.map(|text| text.as_bytes().to_vec()))
        };
        let method = match text("method")? {
            None => None,
            Some(name) => Some(Method::parse(&name).ok_or_else(|| wrong("method: not a method"))?),
        };
        let target = match text("target")? {
            None => None,
            Some(raw) if raw.first() == Some(&b'/') && raw.iter().all(is_visible) => {
                let target = Target::new(raw.into());
                Some(target.map_err(|fault| wrong(&format!("target: {fault}")))?)
            }
            Some(_) => return Err(wrong("target: a path from / on, without spaces, expected")),
        };
        let path = match text("path")? {
            None => None,
            Some(path) if path.first() == Some(&b'/') => {
                let mut raw = Vec::with_capacity(path.len());
                wire::target::encode_path(&path, &mut raw);
                wire::target::canonical(&raw).map_err(|fault| wrong(&format!("path: {fault}")))?;
                Some(raw)
            }
            Some(_) => return Err(wrong("path: a path from / on expected")),
        };
        let query = text("query")?;
        if query.as_ref().is_some_and(|query| !query.iter().all(is_visible)) {
            return Err(wrong("query: spaces and control characters have to be encoded"));
        }
        if target.is_some() && (path.is_some() || query.is_some()) {
            return Err(wrong("target: path and query are in it"));
        }
        let timeout: Option<f64> = table.get("timeout")?;
        let within = match timeout {
            None => None,
            Some(ms) if ms > 0.0 => Some(Duration::from_millis(ms.min(f64::from(u32::MAX)) as u64)),
            Some(_) => return Err(wrong("timeout: milliseconds above 0 expected")),
        };
        let (headers, removed) = match table.get::<Option<Table>>("headers")? {
            None => (Headers::new(), Vec::new()),
            Some(given) => split(function, &given)?,
        };
        Ok(Changes { method, target, path, query, headers, removed, within })
    }

    /// Applies the changes and sets the body.
    pub(crate) fn apply(self, request: &mut Request, body: Option<&[u8]>) {
        if let Some(method) = self.method {
            request.method = method;
        }
        if let Some(target) = self.target {
            request.target = target;
        }
        if self.path.is_some() || self.query.is_some() {
            let path = self.path.unwrap_or_else(|| request.target.raw_path().to_vec());
            let query = match self.query {
                Some(query) => query,
                None => request.target.query().unwrap_or_default().to_vec(),
            };
            let mut raw = path;
            if !query.is_empty() {
                raw.push(b'?');
                raw.extend_from_slice(&query);
            }
            // The path was checked when it was read, or is that of the request.
            if let Ok(target) = Target::new(raw.into()) {
                request.target = target;
            }
        }
        for name in self.removed {
            request.headers.remove(&name[..]);
        }
        for field in self.headers.iter() {
            request.headers.remove(field.name);
        }
        for field in self.headers.iter() {
            request.headers.append(field.name, field.value);
        }
        if let Some(body) = body.filter(|body| !body.is_empty()) {
            request.headers.set(Known::ContentLength, body.len().to_string());
            request.body = bytes::Bytes::copy_from_slice(body).into();
        }
    }
}

fn is_visible(byte: &u8) -> bool {
    byte.is_ascii_graphic() && *byte != b'#'
}

/// Fields to set, and names of fields to remove (`false`).
fn split(function: &str, given: &Table) -> Result<(Headers, Vec<Vec<u8>>)> {
    let mut removed = Vec::new();
    for pair in given.pairs::<Value, Value>() {
        if let (Value::String(name), Value::Boolean(false)) = pair? {
            removed.push(name.as_bytes().to_vec());
        }
    }
    let taken = |value: &Value| *value == Value::Boolean(false);
    let headers = fields::of_table_but(function, 2, given, taken)?;
    Ok((headers, removed))
}
