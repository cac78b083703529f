//! The commands of a store, as Redis has them where it has them.
//!
//! Owns which there are, how many arguments each takes, and what is refused. One command sees one
//! moment and all of the store. What is ours and not Redis's: `TEXT` and `INT` after `SET` and
//! `PUBLISH` say what a value is, which RESP3 then gives back; `INCRBY key n PX ms` sets when the
//! time of a counter that is new ends; `MATCH` takes a prefix only.

mod channels;
mod keys;
mod server;
mod span;

use std::borrow::Cow;
use std::ops::Range;

use crate::limits::KEY_BYTES;
use crate::meters::Meters;
use crate::outlet::Outlet;
use crate::session::Session;
use crate::space::{Inside, Space};

/// The text of an error reply, without a line end.
pub(crate) type Refusal = Cow<'static, str>;
type Outcome = Result<(), Refusal>;

/// One command and what it may touch.
pub(crate) struct Call<'a> {
    bytes: &'a [u8],
    places: &'a [Range<usize>],
    now_ms: u64,
    inside: &'a mut Inside,
    meters: &'a Meters,
    session: &'a mut Session,
    out: &'a mut Outlet,
}

/// A command: the fewest and the most words of it, its name among them.
type Row = (&'static str, usize, usize, fn(&mut Call<'_>) -> Outcome);
const ANY: usize = usize::MAX;

const COMMANDS: &[Row] = &[
    ("GET", 2, 2, keys::get),
    ("SET", 3, ANY, keys::set),
    ("DEL", 2, ANY, keys::delete),
    ("EXISTS", 2, ANY, keys::exists),
    ("MGET", 2, ANY, keys::get_many),
    ("MSET", 3, ANY, keys::set_many),
    ("INCR", 2, 2, keys::increment),
    ("DECR", 2, 2, keys::decrement),
    ("INCRBY", 3, 5, keys::increment_by),
    ("DECRBY", 3, 3, keys::decrement_by),
    ("TOUCH", 2, ANY, keys::exists),
    ("EXPIRE", 3, 3, span::expire),
    ("PEXPIRE", 3, 3, span::expire_ms),
    ("PERSIST", 2, 2, span::persist),
    ("TTL", 2, 2, span::left),
    ("PTTL", 2, 2, span::left_ms),
    ("PUBLISH", 3, 4, channels::publish),
    ("SUBSCRIBE", 2, ANY, channels::subscribe),
    ("UNSUBSCRIBE", 1, ANY, channels::unsubscribe),
    ("DBSIZE", 1, 2, server::size),
    ("SCAN", 2, 6, server::scan),
    ("FLUSHALL", 1, 1, server::flush),
    ("PING", 1, 2, server::ping),
    ("HELLO", 1, 2, server::hello),
    ("INFO", 1, 2, server::info),
    ("QUIT", 1, 1, server::quit),
];

/// What a RESP2 connection that listens may still say.
const WHILE_LISTENING: &[&str] = &["SUBSCRIBE", "UNSUBSCRIBE", "PING", "QUIT"];

/// Executes the command whose words stand at `places` in `bytes`.
pub(crate) fn execute(
    space: &Space,
    bytes: &[u8],
    places: &[Range<usize>],
    session: &mut Session,
    out: &mut Outlet,
) {
    let now_ms = Space::now_ms();
    let mut inside = space.enter();
    let meters = &space.meters;
    let mut call = Call { bytes, places, now_ms, inside: &mut inside, meters, session, out };
    let outcome = call.run();
    meters.commands.inc();
    if let Err(refusal) = outcome {
        meters.refused.inc();
        out.error(&refusal);
    }
    space.settle(&mut inside, now_ms);
}

impl<'a> Call<'a> {
    fn run(&mut self) -> Outcome {
        let name = self.word(0);
        let row = COMMANDS.iter().find(|row| name.eq_ignore_ascii_case(row.0.as_bytes()));
        let Some(&(name, fewest, most, run)) = row else {
            return Err(format!("ERR unknown command '{}'", printable(name)).into());
        };
        if !(fewest..=most).contains(&self.places.len()) {
            return Err(format!("ERR wrong number of arguments for '{name}'").into());
        }
        if self.session.is_listening() && !self.out.typed && !WHILE_LISTENING.contains(&name) {
            return Err(format!("ERR {name} cannot be used while this connection listens").into());
        }
        run(self)
    }

    fn len(&self) -> usize {
        self.places.len()
    }

    fn word(&self, at: usize) -> &'a [u8] {
        self.places.get(at).map_or(b"", |place| &self.bytes[place.clone()])
    }

    fn key(&self, at: usize) -> Result<&'a [u8], Refusal> {
        let key = self.word(at);
        if key.is_empty() || key.len() > KEY_BYTES {
            return Err(format!("ERR a key has 1 to {KEY_BYTES} bytes").into());
        }
        Ok(key)
    }

    fn number(&self, at: usize) -> Result<i64, Refusal> {
        let number = crate::value::parse_integer(self.word(at));
        number.ok_or_else(|| "ERR value is not an integer or out of range".into())
    }

    fn is_word(&self, at: usize, word: &str) -> bool {
        self.word(at).eq_ignore_ascii_case(word.as_bytes())
    }
}

const SYNTAX: Refusal = Cow::Borrowed("ERR syntax error");

/// What may stand in a line that a person reads.
fn printable(bytes: &[u8]) -> String {
    let shown = bytes.iter().take(64);
    shown.map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '?' }).collect()
}

#[cfg(test)]
mod tests;
