//! `net.tls` and `tls.ctx`: TLS of connections and listeners, on the TLS of `net`.
//!
//! Promises that a server's certificate is verified unless a program says `insecure`, that the
//! certificate authorities of the system are read once in a process, and that unusable settings
//! are `nil, reason`. `http` and `websocket` have the same settings.

use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use mlua::{
    AnyUserData, Error, FromLua, Function, IntoLua, IntoLuaMulti, Lua, LuaString, MultiValue,
    Result, Table, UserData, UserDataMethods, Value,
};
use net::tls::{
    CertificateKey, CertificateName, ClientOptions, ClientTls, ServerOptions, ServerTls, TlsVersion,
};

use lua_vm::limits::{BACKLOG, TLS_HANDSHAKE_MS};
use lua_vm::native::tls::{ServerIdentity, TlsSide, connector, listen, upgrader};
use lua_vm::streams::TlsListener;
use lua_vm::{Vm, script};

use crate::context::VmContext;

/// A result whose error is of the settings; the outer error is of an argument.
type Checked<T> = Result<std::result::Result<T, String>>;

/// Settings of `tls.ctx.client`.
#[derive(Clone)]
struct ClientContext(ClientTls);

/// Settings of `tls.ctx.server`.
#[derive(Clone)]
struct ServerContext(ServerTls);

/// The TLS of a listener, which `reload` replaces.
struct ListenerContext(Rc<TlsListener>);

impl UserData for ClientContext {}
impl UserData for ServerContext {}

impl UserData for ListenerContext {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("replace", |lua, ListenerContext(listener), conf: Table| {
            Ok(match server_tls(lua, &conf, &[])? {
                Ok(server) => {
                    listener.replace(server);
                    (true, None)
                }
                Err(reason) => (false, Some(reason)),
            })
        });
    }
}

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    let connected =
        |_: &Lua, host: &str, options: &Value| Ok(identity(host, options.as_table())?.map(Some));
    raw.set("connect", connector(lua, connected)?)?;
    let client = |_: &Lua, host: &str, options: Option<&Table>| {
        Ok(identity(host, options)?.map(TlsSide::Client))
    };
    raw.set("upgrade", upgrader(lua, client)?)?;
    let server = |lua: &Lua, _: &str, conf: Option<&Table>| match conf {
        Some(conf) => Ok(server_tls(lua, conf, &[])?.map(TlsSide::Server)),
        None => Err(Error::runtime("bad argument #2 to 'accept' (table expected)")),
    };
    raw.set("accept", upgrader(lua, server)?)?;
    let listen = |lua: &Lua, (address, accept, conf): (String, Function, Table)| {
        let server = match server_tls(lua, &conf, &[])? {
            Ok(server) => server,
            Err(reason) => return (Value::Nil, reason).into_lua_multi(lua),
        };
        let backlog = conf.get::<Option<u32>>("backlog")?.unwrap_or(BACKLOG).max(1);
        let timeout = conf.get::<Option<u64>>("handshake_timeout")?.unwrap_or(TLS_HANDSHAKE_MS);
        let tls = Rc::new(TlsListener::new(server, Duration::from_millis(timeout)));
        let mut made: MultiValue = listen(lua, &address, backlog, accept, tls.clone())?;
        if made.len() == 1 {
            made.push_back(ListenerContext(tls).into_lua(lua)?);
        }
        Ok(made)
    };
    raw.set("listen", lua.create_function(listen)?)?;
    script::open(lua, "tls", include_str!("../../../lua/tls.lua"), raw)
}

/// `tls.ctx`: settings that several connections or listeners share.
pub(crate) fn open_ctx(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let client = |lua: &Lua, options: Option<Table>| match client_tls(options.as_ref(), &[])? {
        Ok(tls) => ClientContext(tls).into_lua_multi(lua),
        Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
    };
    table.set("client", lua.create_function(client)?)?;
    type Server = (Option<Table>, Option<LuaString>, Option<Vec<LuaString>>);
    let server = |lua: &Lua, (certs, _, alpnprotos): Server| {
        let conf = lua.create_table()?;
        conf.set("certs", certs)?;
        conf.set("alpnprotos", alpnprotos)?;
        match server_tls(lua, &conf, &[])? {
            Ok(tls) => ServerContext(tls).into_lua_multi(lua),
            Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
        }
    };
    table.set("server", lua.create_function(server)?)?;
    Ok(table)
}

/// The TLS of a client with these options, and the name that the server must prove.
fn identity(host: &str, options: Option<&Table>) -> Checked<ServerIdentity> {
    let tls = match client_tls(options, &[])? {
        Ok(tls) => tls,
        Err(reason) => return Ok(Err(reason)),
    };
    let name = match options {
        Some(options) => first::<String>(options, &["hostname", "server"])?,
        None => None,
    };
    let name = name.as_deref().unwrap_or(host);
    let proven = CertificateName::new(name);
    Ok(proven.map(|name| (tls, name)).ok_or_else(|| format!("\"{name}\" is not a host name")))
}

/// The first of these fields that is set.
fn first<T: FromLua>(table: &Table, names: &[&str]) -> Result<Option<T>> {
    for name in names {
        if let Some(value) = table.get::<Option<T>>(*name)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn protocols(table: &Table) -> Result<Option<Vec<Vec<u8>>>> {
    let given = first::<Vec<LuaString>>(table, &["alpnprotos", "alpn"])?;
    Ok(given.map(|given| given.iter().map(|one| one.as_bytes().to_vec()).collect()))
}

/// A context in the field `ctx`.
fn context<T: Clone + 'static>(table: &Table) -> Result<Option<T>> {
    let Some(context) = table.get::<Option<AnyUserData>>("ctx")? else { return Ok(None) };
    let wrong = |_| Error::runtime("ctx: a context for the other side of a connection");
    context.borrow::<T>().map(|context| Some(context.clone())).map_err(wrong)
}

/// Verifies with the certificate authorities of the system, which are read once.
fn system_tls() -> std::result::Result<ClientTls, String> {
    static SYSTEM: OnceLock<std::result::Result<ClientTls, String>> = OnceLock::new();
    let make = || {
        ClientTls::new(ClientOptions {
            authorities: None,
            verify: true,
            certificate: None,
            min_version: TlsVersion::Tls12,
            protocols: Vec::new(),
        })
    };
    SYSTEM.get_or_init(make).clone()
}

/// Reads `ca`, `insecure`, `cert` and `key`, `alpnprotos`, or `ctx` with all of them.
pub(crate) fn client_tls(
    options: Option<&Table>,
    default_protocols: &[&[u8]],
) -> Checked<ClientTls> {
    let with = |tls: ClientTls, given: Option<Vec<Vec<u8>>>| match given {
        Some(given) => tls.with_protocols(&given.iter().map(Vec::as_slice).collect::<Vec<_>>()),
        None if default_protocols.is_empty() => tls,
        None => tls.with_protocols(default_protocols),
    };
    let Some(options) = options else { return Ok(system_tls().map(|tls| with(tls, None))) };
    let given = protocols(options)?;
    if let Some(ClientContext(tls)) = context::<ClientContext>(options)? {
        return Ok(Ok(with(tls, given)));
    }
    let authorities = options.get::<Option<LuaString>>("ca")?;
    let insecure = options.get::<Option<bool>>("insecure")?.unwrap_or_default();
    let (cert, key): (Option<LuaString>, Option<LuaString>) =
        (options.get("cert")?, options.get("key")?);
    let certificate = match (cert, key) {
        (None, None) => None,
        (Some(cert), Some(key)) => match load(&cert, &key) {
            Ok(certificate) => Some(certificate),
            Err(reason) => return Ok(Err(format!("cert: {reason}"))),
        },
        _ => return Ok(Err("cert and key belong together".to_owned())),
    };
    if authorities.is_none() && certificate.is_none() && !insecure {
        return Ok(system_tls().map(|tls| with(tls, given)));
    }
    let made = ClientTls::new(ClientOptions {
        authorities: authorities.map(|pem| pem.as_bytes().to_vec()),
        verify: !insecure,
        certificate,
        min_version: TlsVersion::Tls12,
        protocols: Vec::new(),
    });
    Ok(made.map(|tls| with(tls, given)))
}

fn load(cert: &LuaString, key: &LuaString) -> std::result::Result<CertificateKey, String> {
    let now = net::clock::wall_secs();
    CertificateKey::load(&cert.as_bytes(), &key.as_bytes(), None, now)
        .map_err(|why| why.to_string())
}

/// The certificates of a listener: those in `certs`, each with its key, as PEM text, or the one
/// for development of `run --dev-tls` instead.
fn certificates(lua: &Lua, conf: &Table) -> Checked<Vec<CertificateKey>> {
    let vm = Vm::of(lua)?;
    if let Some(development) = VmContext::of(&vm).development {
        return Ok(Ok(vec![development]));
    }
    let Some(certs) = conf.get::<Option<Table>>("certs")? else {
        let why = "certs: table expected; or start the program with tidegate run --dev-tls";
        return Err(Error::runtime(why));
    };
    let mut certificates = Vec::new();
    for pair in certs.sequence_values::<Table>() {
        let pair = pair?;
        match load(&pair.get("cert")?, &pair.get("key")?) {
            Ok(certificate) => certificates.push(certificate),
            Err(error) => return Ok(Err(format!("certs[{}]: {error}", certificates.len() + 1))),
        }
    }
    if certificates.is_empty() {
        return Ok(Err("certs: no certificate".to_owned()));
    }
    Ok(Ok(certificates))
}

/// Reads `certs`, or the certificate for development in their place, and `alpnprotos`, or `ctx`
/// with both. `ciphers` has no effect: all suites that are offered are authenticated and forward
/// secret.
pub(crate) fn server_tls(
    lua: &Lua,
    conf: &Table,
    default_protocols: &[&[u8]],
) -> Checked<ServerTls> {
    if let Some(ServerContext(tls)) = context::<ServerContext>(conf)? {
        return Ok(Ok(tls));
    }
    let certificates = match certificates(lua, conf)? {
        Ok(certificates) => certificates,
        Err(reason) => return Ok(Err(reason)),
    };
    let default = || default_protocols.iter().map(|one| one.to_vec()).collect();
    Ok(ServerTls::new(ServerOptions {
        certificates,
        answers_challenges: false,
        reject_unknown_names: false,
        min_version: TlsVersion::Tls12,
        protocols: protocols(conf)?.unwrap_or_else(default),
        client_auth: None,
        ticket_keys: Vec::new(),
    }))
}

#[cfg(test)]
mod tests;
