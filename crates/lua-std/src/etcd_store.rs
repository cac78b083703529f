//! `store.etcd`: the client of the crate `etcd` for Lua; `lua/etcd.lua` has its methods.
//!
//! Promises that errors of etcd are `nil, text, code`, that errors of arguments are raised, and
//! that a client that is closed or collected renews its leases no more.

mod leases;
mod requests;
mod responses;
mod watcher;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use etcd::messages::{LeaseKeepAliveRequest, LeaseLeasesResponse};
use etcd::{Credentials, Etcd, EtcdError, EtcdSettings, parse_endpoint};
use mlua::{
    Error, IntoLuaMulti, Lua, MultiValue, Result, Table, UserData, UserDataMethods, UserDataRef,
    Value,
};
use net::tls::CertificateName;
use plugin::WorkerContext;

use crate::limits::ETCD_MESSAGE_BYTES;
use crate::tls::client_tls;
use leases::LeaseKeepers;
use lua_vm::{Vm, async_function, errno, script};
use responses::ToTable;
use watcher::Watcher;

/// What `newclient` makes.
#[derive(Clone)]
struct Handle(Rc<EtcdClient>);

pub(crate) struct EtcdClient {
    etcd: Rc<Etcd>,
    leases: LeaseKeepers,
    watchers: RefCell<Vec<Weak<Watcher>>>,
    is_closed: Cell<bool>,
}

impl UserData for Handle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("close", |_, Handle(client), ()| {
            client.close();
            Ok(())
        });
    }
}

impl EtcdClient {
    fn close(&self) {
        self.is_closed.set(true);
        self.leases.clear();
        for watcher in self.watchers.take().iter().filter_map(Weak::upgrade) {
            watcher.close();
        }
    }

    fn add_watcher(&self, watcher: &Rc<Watcher>) {
        let mut watchers = self.watchers.borrow_mut();
        watchers.retain(|watcher| watcher.strong_count() > 0);
        watchers.push(Rc::downgrade(watcher));
    }
}

impl Drop for EtcdClient {
    fn drop(&mut self) {
        self.close();
    }
}

/// The results of a call: a table, or `nil, text, code`.
pub(crate) enum CallResult<T> {
    Response(T),
    Failed(EtcdError),
    Closed,
}

impl<T: ToTable> IntoLuaMulti for CallResult<T> {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        match self {
            CallResult::Response(response) => response.to_table(lua)?.into_lua_multi(lua),
            CallResult::Failed(error) => failure(lua, &error),
            CallResult::Closed => (Value::Nil, errno::CLOSED).into_lua_multi(lua),
        }
    }
}

fn failure(lua: &Lua, error: &EtcdError) -> Result<MultiValue> {
    (Value::Nil, error.message.as_str(), error.code.slug()).into_lua_multi(lua)
}

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    raw.set("newclient", lua.create_function(new_client)?)?;
    call(lua, &raw, "get", requests::range, async |etcd, request| etcd.range(&request).await)?;
    call(lua, &raw, "put", requests::put, async |etcd, request| etcd.put(&request).await)?;
    call(lua, &raw, "delete", requests::delete, async |etcd, request| etcd.delete(&request).await)?;
    call(lua, &raw, "txn", requests::txn, async |etcd, request| etcd.txn(&request).await)?;
    call(lua, &raw, "compact", requests::compact, async |etcd, request| {
        etcd.compact(&request).await
    })?;
    call(lua, &raw, "grant", requests::grant, async |etcd, request| {
        etcd.lease_grant(&request).await
    })?;
    call(lua, &raw, "revoke", requests::revoke, async |etcd, request| {
        etcd.lease_revoke(&request).await
    })?;
    call(lua, &raw, "ttl", requests::time_to_live, async |etcd, request| {
        etcd.lease_time_to_live(&request).await
    })?;
    let leases = async |etcd: Rc<Etcd>, ()| -> std::result::Result<LeaseLeasesResponse, _> {
        etcd.leases().await
    };
    call(lua, &raw, "leases", |_, _| Ok(()), leases)?;
    call(lua, &raw, "keepalive", requests::keep_alive, async |etcd, request| {
        // 0 is the time to live of a lease that has ended.
        let response = etcd.lease_renew(&request).await?;
        if response.ttl > 0 { Ok(response) } else { Err(ended(&request)) }
    })?;
    leases::add(lua, &raw)?;
    watcher::add(lua, &raw)?;
    script::open(lua, "etcd", include_str!("../../../lua/etcd.lua"), raw)
}

fn ended(request: &LeaseKeepAliveRequest) -> EtcdError {
    EtcdError::lease_ended(request.id)
}

/// Adds the function `name(client, request)`, which waits for one call.
fn call<Q: 'static, R: ToTable + 'static>(
    lua: &Lua,
    raw: &Table,
    name: &'static str,
    read: fn(&'static str, &Table) -> Result<Q>,
    send: impl AsyncFn(Rc<Etcd>, Q) -> std::result::Result<R, EtcdError> + Clone + 'static,
) -> Result<()> {
    let begin = move |_: &Lua, (client, table): (UserDataRef<Handle>, Table)| {
        let (client, request, send) = (client.0.clone(), read(name, &table)?, send.clone());
        Ok(async move {
            if client.is_closed.get() {
                return Ok(CallResult::Closed);
            }
            let result = send(client.etcd.clone(), request).await;
            Ok(result.map_or_else(CallResult::Failed, CallResult::Response))
        })
    };
    raw.set(name, async_function::create(lua, begin)?)
}

/// `newclient(options) → client`
fn new_client(lua: &Lua, options: Table) -> Result<Handle> {
    let settings = settings(&options)?;
    let names = Vm::of(lua)?.resolver();
    let etcd = Etcd::new(&WorkerContext::default(), names, settings).map_err(Error::runtime)?;
    Ok(Handle(Rc::new(EtcdClient {
        etcd: Rc::new(etcd),
        leases: LeaseKeepers::default(),
        watchers: RefCell::default(),
        is_closed: Cell::new(false),
    })))
}

fn settings(options: &Table) -> Result<EtcdSettings> {
    let field = |name: &str, why: &str| {
        Error::runtime(format!("bad argument #1 to 'newclient' ({name}: {why})"))
    };
    let number = |name: &'static str, default: Duration| -> Result<Duration> {
        let given = requests::optional::<u32>("newclient", options, name)?;
        Ok(given.map_or(default, |ms| Duration::from_millis(u64::from(ms))))
    };
    let (has_tls, tls_options) = match options.get::<Value>("tls")? {
        Value::Nil | Value::Boolean(false) => (false, None),
        Value::Boolean(true) => (true, None),
        Value::Table(table) => (true, Some(table)),
        _ => return Err(field("tls", "boolean or table expected")),
    };
    let texts = requests::optional::<Vec<String>>("newclient", options, "endpoints")?;
    let texts = texts.ok_or_else(|| field("endpoints", "list of strings expected"))?;
    let scheme = if has_tls { "https" } else { "http" };
    let parse = |text: &String| match text.contains("://") {
        true => parse_endpoint(text),
        false => parse_endpoint(&format!("{scheme}://{text}")),
    };
    let endpoints: std::result::Result<Vec<_>, String> = texts.iter().map(parse).collect();
    let endpoints = endpoints.map_err(|why| field("endpoints", &why))?;
    let mut settings = EtcdSettings::new(endpoints);
    if settings.endpoints.iter().any(|endpoint| endpoint.is_secure) {
        let tls = client_tls(tls_options.as_ref(), &[b"h2"])?;
        settings.tls = Some(tls.map_err(|why| field("tls", &why))?);
        let name = tls_options.map(|table| table.get::<Option<String>>("hostname")).transpose()?;
        if let Some(name) = name.flatten() {
            let valid = CertificateName::new(&name);
            settings.server_name =
                Some(valid.ok_or_else(|| field("tls", "hostname is not a host name"))?);
        }
    }
    let text = |name| requests::optional::<String>("newclient", options, name);
    settings.credentials = match (text("user")?, text("password")?) {
        (Some(user), password) => {
            Some(Credentials { user, password: password.unwrap_or_default() })
        }
        (None, None) => None,
        (None, Some(_)) => return Err(field("password", "user is missing")),
    };
    settings.timeout = number("timeout", settings.timeout)?.max(Duration::from_millis(1));
    settings.connect = number("dialtimeout", settings.connect)?.max(Duration::from_millis(1));
    settings.pause = number("retry_sleep", Duration::from_secs(1))?;
    let attempts = requests::optional::<u32>("newclient", options, "retry")?;
    settings.attempts = attempts.unwrap_or(settings.attempts).max(1);
    let limit = requests::optional::<u32>("newclient", options, "max_message")?;
    settings.message_bytes = limit.map_or(ETCD_MESSAGE_BYTES, |bytes| bytes as usize);
    Ok(settings)
}

#[cfg(test)]
mod tests;
