//! `net.dns`: resolves names with the resolver of `net`.
//!
//! Resolves as `net.tcp` does: literals, the hosts file, `localhost`, DNS with search list and
//! cache. Promises that a lookup ends within fifteen seconds.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use mlua::{IntoLuaMulti, Lua, MultiValue, Result, Table, Value};
use net::Resolver;

use lua_vm::Vm;
use lua_vm::errno;
use lua_vm::waits;

/// Record types by the names scripts use.
const A: i64 = 1;
const AAAA: i64 = 28;

/// The settings of `conf` and `sethosts`.
#[derive(Default)]
struct StaticHosts {
    names: Option<Rc<Resolver>>,
    hosts: HashMap<String, Vec<IpAddr>>,
}

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let own = Rc::new(RefCell::new(StaticHosts::default()));
    let table = lua.create_table()?;
    table.set("A", A)?;
    table.set("AAAA", AAAA)?;
    let (known, all) = (own.clone(), own.clone());
    table.set(
        "lookup",
        waits::function(lua, move |lua, query: Query| {
            let found = find(lua, &known, query)?;
            Ok(async move { Ok(FirstAddress(found.await)) })
        })?,
    )?;
    table.set(
        "resolve",
        waits::function(lua, move |lua, query: Query| {
            let found = find(lua, &all, query)?;
            Ok(async move { Ok(AllAddresses(found.await)) })
        })?,
    )?;
    let hosts = own.clone();
    table.set(
        "sethosts",
        lua.create_function(move |_, text: String| {
            hosts.borrow_mut().hosts = parse_hosts(&text);
            Ok(())
        })?,
    )?;
    table.set("conf", lua.create_function(move |_, options: Table| configure(&own, &options))?)?;
    table.set(
        "isname",
        lua.create_function(|_, name: String| Ok(name.parse::<IpAddr>().is_err()))?,
    )?;
    Ok(table)
}

/// Name, record type, time-out in milliseconds.
type Query = (String, Option<i64>, Option<u64>);
type LookupResult = std::result::Result<Vec<IpAddr>, String>;

/// Starts a lookup.
fn find(
    lua: &Lua,
    own: &Rc<RefCell<StaticHosts>>,
    (name, kind, ms): Query,
) -> Result<impl Future<Output = LookupResult> + use<>> {
    let kind = kind.unwrap_or(A);
    if kind != A && kind != AAAA {
        let text = "bad argument #2 to 'lookup' (dns.A or dns.AAAA expected)";
        return Err(mlua::Error::runtime(text));
    }
    let own = own.borrow();
    let hosts = own.hosts.get(&name.to_ascii_lowercase()).cloned();
    let names = match &own.names {
        Some(names) => names.clone(),
        None => Vm::of(lua)?.names(),
    };
    let patience = Duration::from_millis(ms.unwrap_or(15_000));
    Ok(async move {
        let of_kind = |ip: &IpAddr| ip.is_ipv4() == (kind == A);
        if let Some(hosts) = hosts {
            return Ok(hosts.into_iter().filter(of_kind).collect());
        }
        match net::timer::within(patience, names.resolve(&name, 0)).await {
            Some(Ok(answer)) => {
                Ok(answer.addresses.iter().map(SocketAddr::ip).filter(of_kind).collect())
            }
            Some(Err(error)) => Err(error.to_string()),
            None => Err(errno::of_number(libc::ETIMEDOUT)),
        }
    })
}

/// `conf{ nameservers = { "ip[:port]", … } }`
fn configure(own: &RefCell<StaticHosts>, options: &Table) -> Result<()> {
    let Some(servers) = options.get::<Option<Vec<String>>>("nameservers")? else { return Ok(()) };
    let servers: Option<Vec<SocketAddr>> = servers
        .iter()
        .map(|text| {
            let ip = text.parse::<IpAddr>().ok();
            ip.map(|ip| SocketAddr::new(ip, 53)).or_else(|| text.parse().ok())
        })
        .collect();
    let Some(servers) = servers else {
        let text = "bad argument #1 to 'conf' (nameservers holds what is no address)";
        return Err(mlua::Error::runtime(text));
    };
    own.borrow_mut().names = Some(Rc::new(Resolver::with_servers(&servers)));
    Ok(())
}

/// The form of /etc/hosts.
fn parse_hosts(text: &str) -> HashMap<String, Vec<IpAddr>> {
    let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(ip) = words.next().and_then(|word| word.parse().ok()) else { continue };
        for name in words {
            hosts.entry(name.to_ascii_lowercase()).or_default().push(ip);
        }
    }
    hosts
}

/// `ip` or `nil, err`.
struct FirstAddress(LookupResult);

impl IntoLuaMulti for FirstAddress {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        match self.0.map(|found| found.first().map(ToString::to_string)) {
            Ok(Some(ip)) => ip.into_lua_multi(lua),
            Ok(None) => (Value::Nil, errno::RESOLVE).into_lua_multi(lua),
            Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
        }
    }
}

/// A list, or `nil, err`.
struct AllAddresses(LookupResult);

impl IntoLuaMulti for AllAddresses {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        match self.0 {
            Ok(found) if found.is_empty() => (Value::Nil, errno::RESOLVE).into_lua_multi(lua),
            Ok(found) => {
                found.iter().map(ToString::to_string).collect::<Vec<_>>().into_lua_multi(lua)
            }
            Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::output;

    #[test]
    fn literals_hosts_and_invalid_names() {
        let program = r#"
            local dns, silly = require "silly.net.dns", require "silly"
            say(dns.lookup("127.0.0.1", dns.A))
            say(dns.lookup("localhost"))
            dns.sethosts("10.0.0.1 One one.example # a comment\n::1 one\n")
            say(dns.lookup("ONE"), dns.lookup("one", dns.AAAA), #dns.resolve("one.example"))
            say(dns.lookup("not a name"))
            say(dns.isname("::1"), dns.isname("a.example"))
            say(pcall(dns.lookup, "a", 33))
            silly.exit()
        "#;
        let expected = [
            "127.0.0.1",
            "127.0.0.1",
            "10.0.0.1 ::1 1",
            "nil cannot resolve \"not a name\": it is not a host name",
            "false true",
        ];
        let output = output(program);
        assert_eq!(output[..5], expected);
        assert!(output[5].contains("dns.A or dns.AAAA expected"), "{output:?}");
    }
}
