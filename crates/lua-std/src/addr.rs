//! `net.addr`: addresses as text.
//!
//! Promises to accept the addresses that `net.tcp` accepts.

use std::net::IpAddr;

use mlua::{Lua, Result, Table};

use lua_vm::address;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    // parse(text) → host or nil, port or nil
    table.set(
        "parse",
        lua.create_function(|_, text: String| {
            let (host, port) = address::split(&text);
            Ok((host.map(str::to_owned), port.map(str::to_owned)))
        })?,
    )?;
    table.set(
        "join",
        lua.create_function(|_, (host, port): (Option<String>, Port)| {
            Ok(join(host.as_deref().unwrap_or_default(), &port.0))
        })?,
    )?;
    table.set("iptype", lua.create_function(|_, host: String| Ok(kind(&host)))?)?;
    table.set("isv4", lua.create_function(|_, host: String| Ok(kind(&host) == 4))?)?;
    table.set("isv6", lua.create_function(|_, host: String| Ok(kind(&host) == 6))?)?;
    table.set("ishost", lua.create_function(|_, host: String| Ok(is_host(&host)))?)?;
    Ok(table)
}

/// A port as a number or as text.
struct Port(String);

impl mlua::FromLua for Port {
    fn from_lua(value: mlua::Value, lua: &Lua) -> Result<Port> {
        String::from_lua(value, lua).map(Port)
    }
}

fn join(host: &str, port: &str) -> String {
    if kind(host) == 6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// 4, 6, or 0 if it is not an address.
fn kind(host: &str) -> u8 {
    match host.parse() {
        Ok(IpAddr::V4(_)) => 4,
        Ok(IpAddr::V6(_)) => 6,
        Err(_) => 0,
    }
}

/// A name rather than an address (RFC 1123 section 2.1).
fn is_host(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    kind(host) == 0
        && host.len() <= 253
        && host.strip_suffix('.').unwrap_or(host).split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::{is_host, join, kind};
    use crate::testing::output;

    #[test]
    fn joins_and_classifies_addresses() {
        assert_eq!(join("::1", "80"), "[::1]:80");
        assert_eq!(join("a.example", "80"), "a.example:80");
        assert_eq!(
            output(
                r#"local addr = require "silly.net.addr"
                say(addr.join(nil, 80), addr.join("", "80"), addr.join("::1", 80))
                require "silly".exit()"#
            ),
            [":80 :80 [::1]:80"]
        );
        assert_eq!((kind("127.0.0.1"), kind("::1"), kind("a.example")), (4, 6, 0));
        assert!(is_host("a.example.") && is_host("localhost"));
        assert!(!is_host("127.0.0.1") && !is_host("-a.b") && !is_host("a..b") && !is_host(""));
    }
}
