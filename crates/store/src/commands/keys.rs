//! Commands that read and write values.

use bytes::Bytes;

use super::{Call, CommandError, CommandResult, SYNTAX};
use crate::limits::VALUE_BYTES;
use crate::map::{NEVER, TooLarge};
use crate::value::{Value, parse_integer};

impl Call<'_> {
    /// Stores a value.
    fn put(&mut self, key: &[u8], value: Value, until_ms: u64) -> CommandResult {
        let result = self.state.map.set(key, value, until_ms, self.now_ms);
        result.map_err(|TooLarge| "ERR the value is larger than the whole store".into())
    }

    fn bytes_at(&self, at: usize) -> Result<Bytes, CommandError> {
        let bytes = self.word(at);
        if bytes.len() > VALUE_BYTES {
            return Err(format!("ERR a value has at most {VALUE_BYTES} bytes").into());
        }
        Ok(Bytes::copy_from_slice(bytes))
    }

    /// Replies with the value of a key or null.
    fn show(&mut self, key: &[u8]) {
        match self.state.map.get(key, self.now_ms) {
            Some((value, _)) => {
                self.metrics.hits.inc();
                self.out.value(value);
            }
            None => {
                self.metrics.misses.inc();
                self.out.nil();
            }
        }
    }

    fn add(&mut self, delta: i64, until_ms: u64) -> CommandResult {
        let key = self.key(1)?;
        let (number, until_ms) = match self.state.map.get(key, self.now_ms) {
            Some((value, until_ms)) => {
                let not_a_number =
                    || CommandError::from("ERR value is not an integer or out of range");
                (value.integer().ok_or_else(not_a_number)?, until_ms)
            }
            None => (0, until_ms),
        };
        let sum = number.checked_add(delta);
        let sum = sum.ok_or("ERR increment or decrement would overflow")?;
        self.put(key, Value::Integer(sum), until_ms)?;
        self.out.integer(sum);
        Ok(())
    }
}

pub(super) fn get(call: &mut Call<'_>) -> CommandResult {
    let key = call.key(1)?;
    call.show(key);
    Ok(())
}

pub(super) fn get_many(call: &mut Call<'_>) -> CommandResult {
    for at in 1..call.len() {
        call.key(at)?;
    }
    call.out.array(call.len() - 1);
    for at in 1..call.len() {
        let key = call.word(at);
        call.show(key);
    }
    Ok(())
}

/// What a key must have, so that `SET` and `DELEX` change it.
enum Condition {
    /// `NX`
    Absent,
    /// `XX`
    Present,
    /// `IFEQ`, followed by the value at this index.
    Equal(usize),
}

impl Condition {
    fn holds(&self, call: &mut Call<'_>, key: &[u8]) -> bool {
        let expected = if let Condition::Equal(at) = self { call.word(*at) } else { b"" };
        let found = call.state.map.get(key, call.now_ms);
        match self {
            Condition::Absent => found.is_none(),
            Condition::Present => found.is_some(),
            Condition::Equal(_) => found.is_some_and(|(value, _)| value.is(expected)),
        }
    }
}

/// The options of `SET`.
struct Options {
    until_ms: u64,
    condition: Option<Condition>,
    value: fn(Bytes) -> Result<Value, CommandError>,
}

fn options(call: &Call<'_>) -> Result<Options, CommandError> {
    let mut options = Options { until_ms: NEVER, condition: None, value: |b| Ok(Value::Bytes(b)) };
    let (mut at, mut resp3) = (3, false);
    while at < call.len() {
        match () {
            () if call.is_word(at, "EX") && options.until_ms == NEVER => {
                at += 1;
                options.until_ms = call.deadline_ms(at, 1000)?;
            }
            () if call.is_word(at, "PX") && options.until_ms == NEVER => {
                at += 1;
                options.until_ms = call.deadline_ms(at, 1)?;
            }
            () if call.is_word(at, "NX") && options.condition.is_none() => {
                options.condition = Some(Condition::Absent);
            }
            () if call.is_word(at, "XX") && options.condition.is_none() => {
                options.condition = Some(Condition::Present);
            }
            () if call.is_word(at, "IFEQ")
                && options.condition.is_none()
                && at + 1 < call.len() =>
            {
                at += 1;
                options.condition = Some(Condition::Equal(at));
            }
            () if call.is_word(at, "TEXT") && !resp3 => {
                (options.value, resp3) = (as_text, true);
            }
            () if call.is_word(at, "INT") && !resp3 => {
                (options.value, resp3) = (as_integer, true);
            }
            () => return Err(SYNTAX),
        }
        at += 1;
    }
    Ok(options)
}

fn as_text(bytes: Bytes) -> Result<Value, CommandError> {
    match std::str::from_utf8(&bytes) {
        Ok(_) => Ok(Value::Text(bytes)),
        Err(_) => Err("ERR the value is not UTF-8".into()),
    }
}

fn as_integer(bytes: Bytes) -> Result<Value, CommandError> {
    let number = parse_integer(&bytes).map(Value::Integer);
    number.ok_or_else(|| "ERR value is not an integer or out of range".into())
}

pub(super) fn set(call: &mut Call<'_>) -> CommandResult {
    let key = call.key(1)?;
    let options = options(call)?;
    let value = (options.value)(call.bytes_at(2)?)?;
    if options.condition.is_some_and(|condition| !condition.holds(call, key)) {
        call.out.nil();
        return Ok(());
    }
    call.put(key, value, options.until_ms)?;
    call.out.ok();
    Ok(())
}

/// A malformed command changes nothing; when memory is short, the last value may evict the first.
pub(super) fn set_many(call: &mut Call<'_>) -> CommandResult {
    if call.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'MSET'".into());
    }
    for at in (1..call.len()).step_by(2) {
        call.key(at)?;
        call.bytes_at(at + 1)?;
    }
    for at in (1..call.len()).step_by(2) {
        let (key, value) = (call.word(at), call.bytes_at(at + 1)?);
        call.put(key, Value::Bytes(value), NEVER)?;
    }
    call.out.ok();
    Ok(())
}

/// Replies with the number of keys for which `holds` is true.
fn count(
    call: &mut Call<'_>,
    mut holds: impl FnMut(&mut Call<'_>, &[u8]) -> bool,
) -> CommandResult {
    for at in 1..call.len() {
        call.key(at)?;
    }
    let mut count = 0;
    for at in 1..call.len() {
        let key = call.word(at);
        count += usize::from(holds(call, key));
    }
    call.out.count(count);
    Ok(())
}

pub(super) fn delete(call: &mut Call<'_>) -> CommandResult {
    count(call, |call, key| call.state.map.remove(key, call.now_ms))
}

/// `DELEX key [IFEQ value]`, as in Redis 8.4.
pub(super) fn delete_if(call: &mut Call<'_>) -> CommandResult {
    let key = call.key(1)?;
    let condition = match call.len() {
        2 => Condition::Present,
        4 if call.is_word(2, "IFEQ") => Condition::Equal(3),
        _ => return Err(SYNTAX),
    };
    let is_deleted = condition.holds(call, key) && call.state.map.remove(key, call.now_ms);
    call.out.count(usize::from(is_deleted));
    Ok(())
}

pub(super) fn exists(call: &mut Call<'_>) -> CommandResult {
    count(call, |call, key| call.state.map.get(key, call.now_ms).is_some())
}

pub(super) fn increment(call: &mut Call<'_>) -> CommandResult {
    call.add(1, NEVER)
}

pub(super) fn decrement(call: &mut Call<'_>) -> CommandResult {
    call.add(-1, NEVER)
}

pub(super) fn increment_by(call: &mut Call<'_>) -> CommandResult {
    let until_ms = match call.len() {
        3 => NEVER,
        5 if call.is_word(3, "PX") => call.deadline_ms(4, 1)?,
        5 if call.is_word(3, "EX") => call.deadline_ms(4, 1000)?,
        _ => return Err(SYNTAX),
    };
    call.add(call.number(2)?, until_ms)
}

pub(super) fn decrement_by(call: &mut Call<'_>) -> CommandResult {
    let negated = call.number(2)?.checked_neg();
    call.add(negated.ok_or("ERR decrement would overflow")?, NEVER)
}
