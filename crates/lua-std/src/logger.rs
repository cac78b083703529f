//! `logger`: lines of the program in the process's log.
//!
//! Promises never to block: a line goes through the log's ring, and a full ring drops it and counts
//! it. A line carries where it was logged, the coroutine's trace id if it has one, and the
//! `trace_id` of the request that the coroutine handles. Lines are formatted in `lua/logger.lua`.

use mlua::{Lua, LuaString, Result, Table};
use telemetry::log::{self, Event, Level};

use lua_vm::Vm;
use lua_vm::script;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    raw.set("write", lua.create_function(write)?)?;
    let level = Level::ALL.into_iter().rev().find(|level| log::enabled(*level));
    raw.set("level", level.map_or(3, number))?;
    script::open(lua, "logger", include_str!("../../../lua/logger.lua"), raw)
}

/// Silly's number of a level; larger is more severe.
fn number(level: Level) -> i64 {
    match level {
        Level::Debug => 0,
        Level::Info => 1,
        Level::Warn => 2,
        Level::Error => 3,
    }
}

/// `write(level, text, place)`
fn write(lua: &Lua, (number, text, place): (i64, LuaString, LuaString)) -> Result<()> {
    let level = Level::ALL.into_iter().find(|level| self::number(*level) == number);
    let text = one_line(&text.as_bytes());
    let mut event = Event::new(level.unwrap_or(Level::Info), &text);
    event.text("at", &place.to_string_lossy());
    let vm = Vm::of(lua)?;
    let trace = vm.trace_id();
    if trace != 0 {
        event.text("trace", &format_args!("{trace:016x}"));
    }
    if let Some(trace_id) = vm.request_trace_id() {
        event.text("trace_id", &trace_id);
    }
    event.emit();
    Ok(())
}

/// Escapes control characters, so that the text stays one line of the log.
fn one_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    if !text.chars().any(char::is_control) {
        return text.into_owned();
    }
    let mut line = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\t' => line.push(' '),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(one_line(b"a\nb\tc\x1b[0m"), "a\\nb c\\u{1b}[0m");
    }
}
