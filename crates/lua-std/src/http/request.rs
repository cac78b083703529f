//! The client's functions for `lua/http.lua`: `client`, `open`, and those of the stream.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use http_client::{Client, ClientOptions, ClientSettings, PoolLimits, Url};
use message::Request;
use mlua::{
    Error, IntoLua, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, UserData,
    UserDataMethods, UserDataRef, Value,
};
use net::tls::ClientTls;
use plugin::WorkerContext;
use wire::{Known, Method};

use super::body_reader::ReadAmount;
use super::client_exchange::ClientExchange;
use super::stream::{done, read_now};
use super::url;
use super::{faults, fields};
use crate::limits::{
    HTTP_CLIENT_IDLE_MS, HTTP_CONNECT_MS, HTTP_IDLE_PER_HOST, HTTP_READ_MS, HTTP_REDIRECTS,
    HTTP_UNSENT_BYTES,
};
use crate::tls::client_tls;
use lua_vm::Vm;
use lua_vm::async_function;
use lua_vm::errno;

/// The userdata of a client.
struct Handle {
    plain: Rc<Client>,
    /// For https; made when it is needed, because it reads the certificate authorities of the
    /// system.
    secure: OnceCell<std::result::Result<Rc<Client>, String>>,
    /// The script's options.
    options: Option<Table>,
    limits: PoolLimits,
    exchange: Rc<ClientOptions>,
}

impl Handle {
    /// The client for a URL, or why it has none.
    fn client(&self, url: &Url) -> Result<std::result::Result<Rc<Client>, String>> {
        if !url.is_secure {
            return Ok(Ok(self.plain.clone()));
        }
        if let Some(made) = self.secure.get() {
            return Ok(made.clone());
        }
        let tls = client_tls(self.options.as_ref(), &[b"http/1.1", b"h2"])?;
        let make = |tls| Rc::new(client_of(self.limits, self.exchange.clone(), Some(tls)));
        Ok(self.secure.get_or_init(|| tls.map(make)).clone())
    }
}

impl UserData for Handle {}

#[derive(Clone)]
struct Stream(Rc<ClientExchange>);

/// `client(options) → client`
fn client(_: &Lua, options: Option<Table>) -> Result<Handle> {
    let number = |key: &str, default: u64| -> Result<u64> {
        let given = options.as_ref().map(|options| options.get::<Option<u64>>(key)).transpose()?;
        Ok(given.flatten().unwrap_or(default))
    };
    let limits = PoolLimits {
        max_idle: usize::try_from(number("max_idle_per_host", HTTP_IDLE_PER_HOST)?).unwrap_or(0),
        idle: Duration::from_millis(number("idle_timeout", HTTP_CLIENT_IDLE_MS)?),
        ..PoolLimits::default()
    };
    let read = Duration::from_millis(number("read_timeout", HTTP_READ_MS)?);
    // A program sends its own request: no client's address is forwarded.
    let exchange = ClientOptions { response: read, read, via: false, ..ClientOptions::default() };
    let exchange = Rc::new(exchange);
    let plain = client_of(limits, exchange.clone(), None);
    // Without TLS there is no choice of a protocol: a client that has only HTTP/2 begins with it.
    let protocols =
        options.as_ref().map(|options| options.get::<Option<Vec<String>>>("alpnprotos"));
    let is_http2 = protocols.transpose()?.flatten().is_some_and(|protocols| protocols == ["h2"]);
    let plain = Rc::new(if is_http2 { plain.with_prior_knowledge() } else { plain });
    Ok(Handle { plain, secure: OnceCell::new(), options, limits, exchange })
}

/// A client with connections of its own, which appear in no metrics.
pub(crate) fn client_of(
    limits: PoolLimits,
    options: Rc<ClientOptions>,
    tls: Option<ClientTls>,
) -> Client {
    let settings = ClientSettings {
        name: "lua".to_owned(),
        tls,
        server_name: None,
        connect: Duration::from_millis(HTTP_CONNECT_MS),
        limits,
        options,
    };
    Client::new(&WorkerContext::default(), settings)
}

/// Makes the request that a script describes.
fn made_up(method: &str, url: &Url, table: Option<&Table>) -> Result<Box<Request>> {
    let method = Method::parse(method.as_bytes())
        .ok_or_else(|| Error::runtime("bad argument #1 to 'request' (a method expected)"))?;
    let mut headers = match table {
        Some(table) => fields::of_table("request", 3, table)?,
        None => message::Headers::new(),
    };
    if !headers.contains(Known::Host) {
        headers.append(Known::Host, &url.authority);
    }
    if !headers.contains(Known::AcceptEncoding) {
        headers.append(Known::AcceptEncoding, "gzip");
    }
    Ok(Box::new(Request::made_up(method, url.target.clone(), headers)))
}

/// Adds everything to the table of raw functions.
pub(super) fn add(lua: &Lua, table: &Table) -> Result<()> {
    table.set("client", lua.create_function(client)?)?;
    table.set("unsent", HTTP_UNSENT_BYTES)?;
    table.set("redirects", HTTP_REDIRECTS)?;
    let follow = |_: &Lua, (from, location): (LuaString, LuaString)| {
        let (from, location) = (from.to_string_lossy(), location.to_string_lossy());
        Ok(match url::follow(&from, &location) {
            Ok((to, same_origin)) => (Some(to), Some(same_origin), None),
            Err(reason) => (None, None, Some(reason)),
        })
    };
    table.set("follow", lua.create_function(follow)?)?;
    type CallArguments = (UserDataRef<Handle>, String, LuaString, Option<Table>);
    let open = async_function::create(lua, |lua, (client, method, text, table): CallArguments| {
        let url: std::result::Result<Url, String> = text.to_string_lossy().parse();
        let url = match url {
            Ok(url) => client.client(&url)?.map(|client| (client, url)),
            Err(reason) => Err(reason),
        };
        let request = match &url {
            Ok((_, url)) => Some(made_up(&method, url, table.as_ref())?),
            Err(_) => None,
        };
        let names = Vm::of(lua)?.resolver();
        Ok(async move {
            let (client, url) = match url {
                Ok(found) => found,
                Err(reason) => return Ok((None, Some(reason))),
            };
            let connected = client.connect(&names, &url).await;
            Ok(match (connected, request) {
                (Ok(connection), Some(request)) => {
                    let outbound = ClientExchange::new(client, request, connection);
                    (Some(Stream(Rc::new(outbound))), None)
                }
                (Err(fault), _) => (None, Some(faults::reason(&fault))),
                (Ok(_), None) => (None, None),
            })
        })
    })?;
    table.set("open", open)?;
    add_waiting(lua, table)
}

fn add_waiting(lua: &Lua, table: &Table) -> Result<()> {
    type CallArguments = (UserDataRef<Stream>, Option<usize>, Option<u64>);
    let read = async_function::create(lua, |_, (stream, count, ms): CallArguments| {
        let (outbound, want) = (stream.0.clone(), ReadAmount::of(count)?);
        Ok(async move { Ok(outbound.input.read(want, ms).await) })
    })?;
    table.set("client_read", read)?;
    type Timed = (UserDataRef<Stream>, Option<u64>);
    let readall = async_function::create(lua, |_, (stream, ms): Timed| {
        let outbound = stream.0.clone();
        Ok(async move { Ok(outbound.input.read(ReadAmount::All, ms).await) })
    })?;
    table.set("client_readall", readall)?;
    let room =
        async_function::create(lua, |_, (stream, at_most): (UserDataRef<Stream>, usize)| {
            let outbound = stream.0.clone();
            Ok(async move {
                Ok(done(outbound.wait_for_room(at_most).await.then_some(()).ok_or(errno::CLOSED)))
            })
        })?;
    table.set("client_room", room)?;
    let answered = async_function::create(lua, |_, (stream, ms): Timed| {
        let outbound = stream.0.clone();
        outbound.begin_whole();
        Ok(async move {
            let span = Duration::from_millis(ms.unwrap_or(u64::from(u32::MAX)));
            let in_time = net::timer::within(span, outbound.wait_for_head()).await.is_some();
            Ok(Head { outbound, in_time })
        })
    })?;
    table.set("answered", answered)
}

/// Status and fields of the response, or `nil, reason`.
struct Head {
    outbound: Rc<ClientExchange>,
    in_time: bool,
}

impl IntoLuaMulti for Head {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        let timed_out = || (Value::Nil, errno::of_number(libc::ETIMEDOUT)).into_lua_multi(lua);
        if !self.in_time {
            return timed_out();
        }
        let values = self.outbound.head(|head| match head {
            Ok((status, headers)) => (*status, fields::to_table(lua, headers)?).into_lua_multi(lua),
            Err(reason) => (Value::Nil, reason.as_str()).into_lua_multi(lua),
        });
        values.unwrap_or_else(timed_out)
    }
}

impl UserData for Stream {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("take", |lua, Stream(outbound), count: Option<usize>| {
            read_now(lua, &outbound.input, count)
        });
        methods.add_method("write", |_, Stream(outbound), data: LuaString| {
            let (ok, reason) = done(outbound.write(&data.as_bytes()));
            Ok((ok, reason, outbound.unsent() > HTTP_UNSENT_BYTES))
        });
        // The whole body at once, if nothing was written yet: it is sent with its length.
        methods.add_method("whole", |_, Stream(outbound), data: LuaString| {
            Ok(done(outbound.write_last(&data.as_bytes())))
        });
        methods.add_method("finish", |_, Stream(outbound), table: Option<Table>| {
            let trailers = table.map(|table| fields::of_table("closewrite", 2, &table));
            let first = outbound.finish(trailers.transpose()?);
            Ok(done(first.then_some(()).ok_or(errno::CLOSED)))
        });
        methods.add_method("trailer", |lua, Stream(outbound), ()| {
            let trailers = outbound.input.trailers.borrow();
            trailers.as_ref().map(|trailers| fields::to_table(lua, trailers)).transpose()
        });
        methods.add_method("get", |lua, Stream(outbound), key: LuaString| match &*key.as_bytes() {
            b"eof" => Ok(Value::Boolean(outbound.input.is_ended())),
            b"version" if outbound.is_http2 => "HTTP/2".into_lua(lua),
            b"version" => "HTTP/1.1".into_lua(lua),
            _ => outbound.address.to_string().into_lua(lua),
        });
        methods.add_method("isalive", |_, Stream(outbound), ()| Ok(outbound.is_open()));
        methods.add_method("close", |_, Stream(outbound), ()| {
            let first = outbound.close();
            Ok((first, (!first).then_some(errno::CLOSED)))
        });
    }
}
