//! `net.dns`: resolves names with the resolver of `net`.
//!
//! Resolves as `net.tcp` does: literals, the hosts file, `localhost`, DNS with search list and
//! cache. Promises that only the requested record type is queried, that concurrent lookups of one
//! name share one query, and that a lookup ends within fifteen seconds.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use mlua::{IntoLua, IntoLuaMulti, Lua, MultiValue, Result, Table, Value};
use net::{Resolver, ResolverSettings, ServiceRecord};
use tokio::sync::OnceCell;

use lua_vm::Vm;
use lua_vm::async_function;
use lua_vm::errno;

/// Record types by the names scripts use.
const A: i64 = 1;
const AAAA: i64 = 28;
const SRV: i64 = 33;

/// Bounds of the settings of `conf`, as in Silly.
const TIMEOUT_SECONDS: f64 = 30.0;
const ATTEMPTS: usize = 5;
const NDOTS: usize = 15;

/// The settings of `conf` and `sethosts`, and the lookups in flight.
#[derive(Default)]
struct DnsModule {
    names: Option<Rc<Resolver>>,
    hosts: HashMap<String, Vec<IpAddr>>,
    /// By name and record type; an entry exists as long as a caller waits for it.
    in_flight: HashMap<(String, i64), Rc<OnceCell<LookupResult>>>,
}

/// A record as a script sees it.
#[derive(Clone)]
enum DnsRecord {
    Address(IpAddr),
    Service(ServiceRecord),
}

type LookupResult = std::result::Result<Vec<DnsRecord>, String>;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let own = Rc::new(RefCell::new(DnsModule::default()));
    let table = lua.create_table()?;
    for (name, kind) in [("A", A), ("AAAA", AAAA), ("SRV", SRV)] {
        table.set(name, kind)?;
    }
    let (one, all) = (own.clone(), own.clone());
    table.set(
        "lookup",
        async_function::create(lua, move |lua, query: Query| {
            let found = find(lua, &one, query)?;
            Ok(async move { Ok(FirstRecord(found.await)) })
        })?,
    )?;
    table.set(
        "resolve",
        async_function::create(lua, move |lua, query: Query| {
            let found = find(lua, &all, query)?;
            Ok(async move { Ok(AllRecords(found.await)) })
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
    let conf = lua.create_function(move |_, options: Table| {
        let resolver = Resolver::with_settings(settings(&options)?);
        let mut own = own.borrow_mut();
        own.names = Some(Rc::new(resolver));
        // Lookups in flight end with the servers they began with; later ones do not join them.
        own.in_flight.clear();
        Ok(())
    })?;
    table.set("conf", conf)?;
    table.set(
        "isname",
        lua.create_function(|_, name: String| Ok(name.parse::<IpAddr>().is_err()))?,
    )?;
    Ok(table)
}

/// Name, record type, time-out in milliseconds.
type Query = (String, Option<i64>, Option<u64>);

/// Starts a lookup, or joins one in flight.
fn find(
    lua: &Lua,
    own: &Rc<RefCell<DnsModule>>,
    (name, kind, ms): Query,
) -> Result<impl Future<Output = LookupResult> + use<>> {
    let kind = kind.unwrap_or(A);
    if ![A, AAAA, SRV].contains(&kind) {
        let text = "bad argument #2 to 'lookup' (dns.A, dns.AAAA or dns.SRV expected)";
        return Err(mlua::Error::runtime(text));
    }
    let key = (name.to_ascii_lowercase(), kind);
    let (names, hosts, flight) = {
        let mut own = own.borrow_mut();
        let names = match &own.names {
            Some(names) => names.clone(),
            None => Vm::of(lua)?.resolver(),
        };
        let hosts = own.hosts.get(&key.0).filter(|_| kind != SRV).cloned();
        (names, hosts, own.in_flight.entry(key.clone()).or_default().clone())
    };
    let timeout = Duration::from_millis(ms.unwrap_or(15_000));
    let own = own.clone();
    Ok(async move {
        // If the caller that queries times out, another that waits queries again.
        let shared = flight.get_or_init(async || match hosts {
            Some(hosts) => Ok(of_kind(&hosts, kind)),
            None => query(&names, &name, kind).await,
        });
        let found = net::timer::within(timeout, shared).await.cloned();
        let in_flight = &mut own.borrow_mut().in_flight;
        // The map and this caller hold it: no other caller waits.
        if in_flight.get(&key).is_some_and(|other| Rc::ptr_eq(other, &flight))
            && (found.is_some() || Rc::strong_count(&flight) <= 2)
        {
            in_flight.remove(&key);
        }
        found.unwrap_or_else(|| Err(errno::of_number(libc::ETIMEDOUT)))
    })
}

fn of_kind(hosts: &[IpAddr], kind: i64) -> Vec<DnsRecord> {
    let hosts = hosts.iter().filter(|ip| ip.is_ipv6() == (kind == AAAA));
    hosts.copied().map(DnsRecord::Address).collect()
}

async fn query(names: &Resolver, name: &str, kind: i64) -> LookupResult {
    // An address stands for itself, whatever is queried.
    if let Ok(ip) = name.parse::<IpAddr>() {
        return Ok(vec![DnsRecord::Address(ip)]);
    }
    let records = match kind {
        SRV => {
            let found = names.services(name).await;
            found.map(|all| all.records.into_iter().map(DnsRecord::Service).collect())
        }
        _ => {
            let found = names.addresses(name, kind == AAAA).await;
            found.map(|all| all.into_iter().map(DnsRecord::Address).collect())
        }
    };
    records.map_err(|error| error.to_string())
}

/// `conf{ nameservers = { "ip[:port]", … }, search = { … }, timeout = s, attempts =, ndots = }`
fn settings(options: &Table) -> Result<ResolverSettings> {
    let servers = options.get::<Option<Vec<String>>>("nameservers")?.unwrap_or_default();
    let servers: Option<Vec<SocketAddr>> = servers
        .iter()
        .map(|text| {
            let ip = text.parse::<IpAddr>().ok();
            ip.map(|ip| SocketAddr::new(ip, 53)).or_else(|| text.parse().ok())
        })
        .collect();
    let Some(servers) = servers else {
        let text = "bad argument #1 to 'conf' (nameservers has a value that is not an address)";
        return Err(mlua::Error::runtime(text));
    };
    let timeout = options.get::<Option<f64>>("timeout")?;
    let attempts = options.get::<Option<usize>>("attempts")?;
    Ok(ResolverSettings {
        servers,
        search: options.get("search")?,
        timeout: timeout.map(|s| Duration::from_secs_f64(s.clamp(0.001, TIMEOUT_SECONDS))),
        attempts: attempts.map(|attempts| attempts.clamp(1, ATTEMPTS)),
        ndots: options.get::<Option<usize>>("ndots")?.map(|ndots| ndots.min(NDOTS)),
    })
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

/// An address is text, a service a table.
impl IntoLua for DnsRecord {
    fn into_lua(self, lua: &Lua) -> Result<Value> {
        match self {
            DnsRecord::Address(ip) => ip.to_string().into_lua(lua),
            DnsRecord::Service(service) => {
                let table = lua.create_table()?;
                table.set("priority", service.priority)?;
                table.set("weight", service.weight)?;
                table.set("port", service.port)?;
                table.set("target", service.target)?;
                table.into_lua(lua)
            }
        }
    }
}

/// The first record, or `nil, err`.
struct FirstRecord(LookupResult);

impl IntoLuaMulti for FirstRecord {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        match self.0.map(|found| found.into_iter().next()) {
            Ok(Some(record)) => record.into_lua_multi(lua),
            Ok(None) => (Value::Nil, errno::RESOLVE).into_lua_multi(lua),
            Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
        }
    }
}

/// A list, or `nil, err`.
struct AllRecords(LookupResult);

impl IntoLuaMulti for AllRecords {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        match self.0 {
            Ok(found) if found.is_empty() => (Value::Nil, errno::RESOLVE).into_lua_multi(lua),
            Ok(found) => found.into_lua_multi(lua),
            Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
        }
    }
}

#[cfg(test)]
mod tests;
