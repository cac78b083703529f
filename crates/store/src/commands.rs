//! The commands of a store, compatible with Redis where Redis has them.
//!
//! Owns the command table, the argument counts and the errors. A command is atomic. Extensions of
//! Redis: `TEXT` and `INT` after `SET` and `PUBLISH` give the type of a value, which RESP3 then
//! returns; `INCRBY key n PX ms` sets the expiry of a new counter; `MATCH` takes a prefix only;
//! `TASK` is about background jobs.

mod channels;
mod expiry;
mod keys;
mod server;
mod tasks;

use std::borrow::Cow;
use std::ops::Range;

use crate::database::{Database, DatabaseState};
use crate::limits::KEY_BYTES;
use crate::metrics::StoreMetrics;
use crate::reply_writer::ReplyWriter;
use crate::session::Session;

/// The text of an error reply, without a line end.
pub(crate) type CommandError = Cow<'static, str>;
type CommandResult = Result<(), CommandError>;

/// A command and its context.
pub(crate) struct Call<'a> {
    bytes: &'a [u8],
    ranges: &'a [Range<usize>],
    now_ms: u64,
    state: &'a mut DatabaseState,
    metrics: &'a StoreMetrics,
    session: &'a mut Session,
    out: &'a mut ReplyWriter,
}

/// A command: its name, its minimum and maximum number of words including the name, and its
/// function.
type CommandSpec = (&'static str, usize, usize, fn(&mut Call<'_>) -> CommandResult);
const ANY: usize = usize::MAX;

const COMMANDS: &[CommandSpec] = &[
    ("GET", 2, 2, keys::get),
    ("SET", 3, ANY, keys::set),
    ("DEL", 2, ANY, keys::delete),
    ("DELEX", 2, 4, keys::delete_if),
    ("EXISTS", 2, ANY, keys::exists),
    ("MGET", 2, ANY, keys::get_many),
    ("MSET", 3, ANY, keys::set_many),
    ("INCR", 2, 2, keys::increment),
    ("DECR", 2, 2, keys::decrement),
    ("INCRBY", 3, 5, keys::increment_by),
    ("DECRBY", 3, 3, keys::decrement_by),
    ("TOUCH", 2, ANY, keys::exists),
    ("EXPIRE", 3, 3, expiry::expire),
    ("PEXPIRE", 3, 3, expiry::pexpire),
    ("PERSIST", 2, 2, expiry::persist),
    ("TTL", 2, 2, expiry::ttl),
    ("PTTL", 2, 2, expiry::pttl),
    ("PUBLISH", 3, 4, channels::publish),
    ("SUBSCRIBE", 2, ANY, channels::subscribe),
    ("UNSUBSCRIBE", 1, ANY, channels::unsubscribe),
    ("TASK", 2, ANY, tasks::task),
    ("DBSIZE", 1, 2, server::size),
    ("SCAN", 2, 6, server::scan),
    ("FLUSHALL", 1, 1, server::flush),
    ("PING", 1, 2, server::ping),
    ("HELLO", 1, 2, server::hello),
    ("INFO", 1, 2, server::info),
    ("QUIT", 1, 1, server::quit),
];

/// The commands a RESP2 connection with subscriptions may send.
const WHILE_SUBSCRIBED: &[&str] = &["SUBSCRIBE", "UNSUBSCRIBE", "PING", "QUIT"];

/// Executes the command whose arguments are at `ranges` in `bytes`.
pub(crate) fn execute(
    database: &Database,
    bytes: &[u8],
    ranges: &[Range<usize>],
    session: &mut Session,
    out: &mut ReplyWriter,
) {
    let now_ms = Database::now_ms();
    let mut state = database.lock();
    let metrics = &database.metrics;
    let mut call = Call { bytes, ranges, now_ms, state: &mut state, metrics, session, out };
    let result = call.run();
    metrics.commands.inc();
    if let Err(refusal) = result {
        metrics.refused.inc();
        out.error(&refusal);
    }
    database.expire_some(&mut state, now_ms);
}

impl<'a> Call<'a> {
    fn run(&mut self) -> CommandResult {
        let name = self.word(0);
        let command =
            COMMANDS.iter().find(|command| name.eq_ignore_ascii_case(command.0.as_bytes()));
        let Some(&(name, min, max, run)) = command else {
            return Err(format!("ERR unknown command '{}'", printable(name)).into());
        };
        if !(min..=max).contains(&self.ranges.len()) {
            return Err(format!("ERR wrong number of arguments for '{name}'").into());
        }
        if self.session.is_subscribed() && !self.out.resp3 && !WHILE_SUBSCRIBED.contains(&name) {
            return Err(
                format!("ERR {name} cannot be used while this connection is subscribed").into()
            );
        }
        run(self)
    }

    fn len(&self) -> usize {
        self.ranges.len()
    }

    fn word(&self, at: usize) -> &'a [u8] {
        self.ranges.get(at).map_or(b"", |range| &self.bytes[range.clone()])
    }

    fn key(&self, at: usize) -> Result<&'a [u8], CommandError> {
        let key = self.word(at);
        if key.is_empty() || key.len() > KEY_BYTES {
            return Err(format!("ERR a key has 1 to {KEY_BYTES} bytes").into());
        }
        Ok(key)
    }

    fn number(&self, at: usize) -> Result<i64, CommandError> {
        let number = crate::value::parse_integer(self.word(at));
        number.ok_or_else(|| "ERR value is not an integer or out of range".into())
    }

    fn is_word(&self, at: usize, word: &str) -> bool {
        self.word(at).eq_ignore_ascii_case(word.as_bytes())
    }
}

const SYNTAX: CommandError = Cow::Borrowed("ERR syntax error");

/// Reranges bytes that are not printable.
fn printable(bytes: &[u8]) -> String {
    let shown = bytes.iter().take(64);
    shown.map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '?' }).collect()
}

#[cfg(test)]
mod tests;
