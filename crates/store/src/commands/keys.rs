//! Commands that read and write values.

use bytes::Bytes;

use super::{Call, Outcome, Refusal, SYNTAX};
use crate::limits::VALUE_BYTES;
use crate::map::{NEVER, TooLarge};
use crate::value::{Value, parse_integer};

impl Call<'_> {
    /// Puts a value in its place.
    fn put(&mut self, key: &[u8], value: Value, until_ms: u64) -> Outcome {
        let outcome = self.inside.map.set(key, value, until_ms, self.now_ms);
        outcome.map_err(|TooLarge| "ERR the value is larger than the whole store".into())
    }

    fn bytes_at(&self, at: usize) -> Result<Bytes, Refusal> {
        let bytes = self.word(at);
        if bytes.len() > VALUE_BYTES {
            return Err(format!("ERR a value has at most {VALUE_BYTES} bytes").into());
        }
        Ok(Bytes::copy_from_slice(bytes))
    }

    /// Answers with the value of a key, or with nothing.
    fn show(&mut self, key: &[u8]) {
        match self.inside.map.get(key, self.now_ms) {
            Some((value, _)) => {
                self.meters.hits.inc();
                self.out.value(value);
            }
            None => {
                self.meters.misses.inc();
                self.out.nil();
            }
        }
    }

    fn add(&mut self, delta: i64, until_ms: u64) -> Outcome {
        let key = self.key(1)?;
        let (number, until_ms) = match self.inside.map.get(key, self.now_ms) {
            Some((value, until_ms)) => {
                let not_one = || Refusal::from("ERR value is not an integer or out of range");
                (value.integer().ok_or_else(not_one)?, until_ms)
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

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let key = call.key(1)?;
    call.show(key);
    Ok(())
}

pub(super) fn get_many(call: &mut Call<'_>) -> Outcome {
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

/// What stands behind a key and a value in `SET`.
struct Options {
    until_ms: u64,
    /// Only if there is one, or only if there is none.
    there: Option<bool>,
    value: fn(Bytes) -> Result<Value, Refusal>,
}

fn options(call: &Call<'_>) -> Result<Options, Refusal> {
    let mut options = Options { until_ms: NEVER, there: None, value: |b| Ok(Value::Bytes(b)) };
    let (mut at, mut typed) = (3, false);
    while at < call.len() {
        match () {
            () if call.is_word(at, "EX") && options.until_ms == NEVER => {
                at += 1;
                options.until_ms = call.until(at, 1000)?;
            }
            () if call.is_word(at, "PX") && options.until_ms == NEVER => {
                at += 1;
                options.until_ms = call.until(at, 1)?;
            }
            () if call.is_word(at, "NX") && options.there.is_none() => options.there = Some(false),
            () if call.is_word(at, "XX") && options.there.is_none() => options.there = Some(true),
            () if call.is_word(at, "TEXT") && !typed => {
                (options.value, typed) = (as_text, true);
            }
            () if call.is_word(at, "INT") && !typed => {
                (options.value, typed) = (as_integer, true);
            }
            () => return Err(SYNTAX),
        }
        at += 1;
    }
    Ok(options)
}

fn as_text(bytes: Bytes) -> Result<Value, Refusal> {
    match std::str::from_utf8(&bytes) {
        Ok(_) => Ok(Value::Text(bytes)),
        Err(_) => Err("ERR the value is no UTF-8".into()),
    }
}

fn as_integer(bytes: Bytes) -> Result<Value, Refusal> {
    let number = parse_integer(&bytes).map(Value::Integer);
    number.ok_or_else(|| "ERR value is not an integer or out of range".into())
}

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let key = call.key(1)?;
    let options = options(call)?;
    let value = (options.value)(call.bytes_at(2)?)?;
    if let Some(there) = options.there
        && there != call.inside.map.get(key, call.now_ms).is_some()
    {
        call.out.nil();
        return Ok(());
    }
    call.put(key, value, options.until_ms)?;
    call.out.ok();
    Ok(())
}

/// What is malformed is refused whole; when memory is short, the last may push out the first.
pub(super) fn set_many(call: &mut Call<'_>) -> Outcome {
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

/// Counts the keys for which something holds.
fn count(call: &mut Call<'_>, mut holds: impl FnMut(&mut Call<'_>, &[u8]) -> bool) -> Outcome {
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

pub(super) fn delete(call: &mut Call<'_>) -> Outcome {
    count(call, |call, key| call.inside.map.remove(key, call.now_ms))
}

pub(super) fn exists(call: &mut Call<'_>) -> Outcome {
    count(call, |call, key| call.inside.map.get(key, call.now_ms).is_some())
}

pub(super) fn increment(call: &mut Call<'_>) -> Outcome {
    call.add(1, NEVER)
}

pub(super) fn decrement(call: &mut Call<'_>) -> Outcome {
    call.add(-1, NEVER)
}

pub(super) fn increment_by(call: &mut Call<'_>) -> Outcome {
    let until_ms = match call.len() {
        3 => NEVER,
        5 if call.is_word(3, "PX") => call.until(4, 1)?,
        5 if call.is_word(3, "EX") => call.until(4, 1000)?,
        _ => return Err(SYNTAX),
    };
    call.add(call.number(2)?, until_ms)
}

pub(super) fn decrement_by(call: &mut Call<'_>) -> Outcome {
    let negated = call.number(2)?.checked_neg();
    call.add(negated.ok_or("ERR decrement would overflow")?, NEVER)
}
