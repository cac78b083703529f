//! `process`: facts of this process.
//!
//! Promises the current numbers of the system; a number that the system does not report is zero.

use std::fs;

use mlua::{Lua, Result, Table};

use lua_vm::Vm;
use lua_vm::timers;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.set("pid", std::process::id())?;
    table.set(
        "hostname",
        lua.create_function(|_, ()| Ok(first_line("/proc/sys/kernel/hostname")))?,
    )?;
    table.set("cwd", lua.create_function(|_, ()| Ok(current_directory()))?)?;
    // uptime() → ms
    table.set("uptime", lua.create_function(|_, ()| Ok(timers::now_ms()))?)?;
    // cpu() → user seconds, system seconds
    table.set("cpu", lua.create_function(|_, ()| Ok(cpu()))?)?;
    // memory() → resident bytes, bytes Lua uses
    table.set(
        "memory",
        lua.create_function(|lua, ()| Ok((resident(), Vm::of(lua)?.memory_used())))?,
    )?;
    // descriptors() → open, most allowed
    table.set("descriptors", lua.create_function(|_, ()| Ok(descriptors()))?)?;
    table.set(
        "env",
        lua.create_function(|_, name: String| {
            Ok(std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
        })?,
    )?;
    Ok(table)
}

fn first_line(file: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

fn current_directory() -> String {
    std::env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default()
}

/// Ticks of a second in /proc, as every Linux has it.
const TICKS: f64 = 100.0;

fn cpu() -> (f64, f64) {
    let text = first_line("/proc/self/stat");
    // The name, in parentheses, may hold spaces; 11 fields after it are the times.
    let fields: Vec<f64> = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0.0))
        .collect();
    let seconds = |at: usize| fields.get(at).map_or(0.0, |ticks| ticks / TICKS);
    (seconds(11), seconds(12))
}

fn resident() -> u64 {
    fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

fn descriptors() -> (usize, u64) {
    let open = fs::read_dir("/proc/self/fd").map(Iterator::count).unwrap_or(0);
    let most = fs::read_to_string("/proc/self/limits")
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0);
    (open, most)
}

#[cfg(test)]
mod tests {
    use super::{cpu, descriptors, resident};

    #[test]
    fn numbers_of_the_system_are_plausible() {
        assert!(resident() > 1_000_000);
        let (open, most) = descriptors();
        assert!(open > 2 && most > 2);
        assert!(cpu().0 >= 0.0);
    }
}
