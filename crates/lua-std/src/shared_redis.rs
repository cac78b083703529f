//! `shared` in Redis or Valkey: the same calls, on keys that several servers share.
//!
//! Promises that each call waits in its coroutine only and ends with a value or an error, that it
//! is sent once, that calls of many coroutines are sent together, and that calls fail at once for
//! a moment after Redis could not be reached. Values keep their type: an integer is its digits, so
//! that Redis can add to it, anything else has a letter in front.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Error, IntoLua, Lua, LuaString, Result, Table, Value};
use net::clock::{self, Moment};
use redis::{RedisClient, RedisCommand, RedisError, RedisPlan, Reply, Script};
use tokio::sync::oneshot;

use crate::limits::{SHARED_CALLS, SHARED_CALLS_TOGETHER, SHARED_DOWN};
use crate::shared_table::SharedValue;
use crate::shared_values::{lifetime_ms, short, to_shared_value, value};
use lua_vm::async_function;

/// Adds to an integer; a new one expires. The sum is text: a number of Redis's Lua is not exact
/// above 2^53.
const ADD: &str = "\
local is_new = redis.call('EXISTS', KEYS[1]) == 0
redis.call('INCRBY', KEYS[1], ARGV[1])
if is_new then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return redis.call('GET', KEYS[1])";

type CallResult = std::result::Result<Reply, String>;

/// The calls of one VM.
struct SharedRedis {
    prefix: String,
    add: Script,
    /// `None` while calls are in flight.
    client: RefCell<Option<RedisClient>>,
    calls: RefCell<VecDeque<(RedisCommand, oneshot::Sender<CallResult>)>>,
    is_sending: Cell<bool>,
    /// Until when calls fail at once, and why.
    down: RefCell<Option<(Moment, String)>>,
}

impl SharedRedis {
    fn new(plan: &Arc<RedisPlan>) -> SharedRedis {
        let add = Script::new(ADD);
        SharedRedis {
            prefix: format!("{}:lua:", plan.prefix()),
            client: RefCell::new(Some(RedisClient::new(plan.clone(), vec![add.clone()]))),
            add,
            calls: RefCell::default(),
            is_sending: Cell::new(false),
            down: RefCell::default(),
        }
    }

    fn key(&self, key: &[u8], name: &str) -> Result<Vec<u8>> {
        Ok([self.prefix.as_bytes(), short(key, name)?].concat())
    }

    /// Sends a command and waits for its reply.
    async fn call(self: Rc<Self>, command: RedisCommand) -> Result<Reply> {
        let failed = |why: &str| Error::runtime(format!("tide.shared: {why}"));
        if let Some((until, why)) = &*self.down.borrow()
            && clock::now() < *until
        {
            return Err(failed(why));
        }
        let (done, reply) = oneshot::channel();
        {
            let mut calls = self.calls.borrow_mut();
            if calls.len() >= SHARED_CALLS {
                return Err(failed("too many calls wait for Redis"));
            }
            calls.push_back((command, done));
        }
        if !self.is_sending.replace(true) {
            net::task::spawn_local(self.clone().send());
        }
        let reply = reply.await.unwrap_or_else(|_| Err("the VM has ended".to_owned()));
        reply.map_err(|why| failed(&why))
    }

    /// Sends what waits, until nothing does.
    async fn send(self: Rc<Self>) {
        let Some(mut client) = self.client.take() else { return };
        loop {
            let (commands, waiting): (Vec<_>, Vec<_>) = {
                let mut calls = self.calls.borrow_mut();
                let count = calls.len().min(SHARED_CALLS_TOGETHER);
                calls.drain(..count).unzip()
            };
            if commands.is_empty() {
                break;
            }
            let results = client.run(&commands).await;
            let mut lost = None;
            for (result, done) in results.into_iter().zip(waiting) {
                if let Err(RedisError::Unreachable(why) | RedisError::Lost(why)) = &result {
                    lost = Some(why.clone());
                }
                // The VM may have ended.
                let _ = done.send(result.map_err(|error| error.to_string()));
            }
            self.note(lost);
        }
        self.client.replace(Some(client));
        self.is_sending.set(false);
    }

    /// After a failure, those that wait fail too: each would wait for the time-out.
    fn note(&self, lost: Option<String>) {
        if let Some(why) = &lost {
            for (_, done) in self.calls.take() {
                let _ = done.send(Err(why.clone()));
            }
        }
        self.down.replace(lost.map(|why| (clock::now().after(SHARED_DOWN), why)));
    }
}

fn encoded(value: &SharedValue) -> Vec<u8> {
    match value {
        SharedValue::Nothing => Vec::new(),
        SharedValue::Integer(number) => number.to_string().into_bytes(),
        SharedValue::Number(number) => format!("f{number:?}").into_bytes(),
        SharedValue::Boolean(truth) => if *truth { "y" } else { "n" }.into(),
        SharedValue::Bytes(bytes) => [b"t", &bytes[..]].concat(),
    }
}

fn decoded(bytes: &[u8]) -> SharedValue {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let read = match bytes {
        b"y" => Some(SharedValue::Boolean(true)),
        b"n" => Some(SharedValue::Boolean(false)),
        [b't', rest @ ..] => Some(SharedValue::Bytes(rest.into())),
        [b'f', rest @ ..] => text(rest).and_then(|n| n.parse().ok()).map(SharedValue::Number),
        digits => text(digits).and_then(|n| n.parse().ok()).map(SharedValue::Integer),
    };
    // Another program has written it.
    read.unwrap_or_else(|| SharedValue::Bytes(bytes.into()))
}

impl IntoLua for SharedValue {
    fn into_lua(self, lua: &Lua) -> Result<Value> {
        value(lua, self)
    }
}

fn bytes_of(reply: &Reply) -> Option<&[u8]> {
    match reply {
        Reply::Bytes(bytes) | Reply::Text(bytes) => Some(bytes),
        _ => None,
    }
}

pub(crate) fn open(lua: &Lua, plan: &Arc<RedisPlan>) -> Result<Table> {
    let shared = Rc::new(SharedRedis::new(plan));
    let module = lua.create_table()?;
    let own = shared.clone();
    let get = async_function::create(lua, move |_, key: LuaString| {
        let key = own.key(&key.as_bytes(), "get")?;
        let shared = own.clone();
        Ok(async move {
            let reply = shared.call(RedisCommand::of(&[b"GET", &key], 1)).await?;
            Ok(bytes_of(&reply).map_or(SharedValue::Nothing, decoded))
        })
    })?;
    module.set("get", get)?;
    let own = shared.clone();
    let set = async_function::create(
        lua,
        move |_, (key, value, ttl): (LuaString, Value, Option<f64>)| {
            let key = own.key(&key.as_bytes(), "set")?;
            let ttl = lifetime_ms(ttl, "set")?.map(|ms| ms.to_string());
            let value = to_shared_value(&value)?;
            let text = encoded(&value);
            let command = match (&value, &ttl) {
                (SharedValue::Nothing, _) => RedisCommand::of(&[b"DEL", &key], 1),
                (_, None) => RedisCommand::of(&[b"SET", &key, &text], 1),
                (_, Some(ttl)) => {
                    RedisCommand::of(&[b"SET", &key, &text, b"PX", ttl.as_bytes()], 1)
                }
            };
            let shared = own.clone();
            Ok(async move { shared.call(command).await.map(drop) })
        },
    )?;
    module.set("set", set)?;
    let own = shared.clone();
    let add = async_function::create(
        lua,
        move |_, (key, by, ttl): (LuaString, Option<i64>, Option<f64>)| {
            let key = own.key(&key.as_bytes(), "add")?;
            let by = by.unwrap_or(1).to_string();
            let command = match lifetime_ms(ttl, "add")? {
                None => RedisCommand::of(&[b"INCRBY", &key, by.as_bytes()], 1),
                Some(ms) => {
                    let ms = ms.to_string();
                    RedisCommand::script(&own.add, &key, &[by.as_bytes(), ms.as_bytes()])
                }
            };
            let shared = own.clone();
            Ok(async move { sum(shared.call(command).await) })
        },
    )?;
    module.set("add", add)?;
    let delete = async_function::create(lua, move |_, key: LuaString| {
        let key = shared.key(&key.as_bytes(), "delete")?;
        let shared = shared.clone();
        Ok(async move {
            let reply = shared.call(RedisCommand::of(&[b"DEL", &key], 1)).await?;
            Ok(matches!(reply, Reply::Integer(count) if count > 0))
        })
    })?;
    module.set("delete", delete)?;
    Ok(module)
}

fn sum(reply: Result<Reply>) -> Result<i64> {
    let wrong = || Error::runtime("'add' needs a whole number");
    match reply {
        Ok(Reply::Integer(sum)) => Ok(sum),
        Ok(reply) => {
            let text = bytes_of(&reply).and_then(|bytes| std::str::from_utf8(bytes).ok());
            text.and_then(|text| text.parse().ok()).ok_or_else(wrong)
        }
        Err(error) => {
            let text = error.to_string();
            let is_value = text.contains("not an integer") || text.contains("overflow");
            Err(if is_value { wrong() } else { error })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SharedValue, decoded, encoded};

    #[test]
    fn values_keep_their_type() {
        for value in [
            SharedValue::Integer(i64::MIN),
            SharedValue::Integer(7),
            SharedValue::Number(0.1),
            SharedValue::Number(f64::INFINITY),
            SharedValue::Number(1e300),
            SharedValue::Boolean(true),
            SharedValue::Boolean(false),
            SharedValue::Bytes((*b"").into()),
            SharedValue::Bytes((*b"7").into()),
            SharedValue::Bytes((*b"\xff\0").into()),
        ] {
            assert_eq!(decoded(&encoded(&value)), value);
        }
        assert_eq!(decoded(b"plain"), SharedValue::Bytes((*b"plain").into()));
        assert_eq!(decoded(b"f?"), SharedValue::Bytes((*b"f?").into()));
    }
}
