//! `metrics.prometheus`: the metrics of a program.
//!
//! Promises that all workers of a process share their metrics, that a server shows them at its
//! `/metrics`, and that counting takes no lock. The rest is `lua/prometheus.lua`.

use std::sync::Arc;

use mlua::{Error, Function, Lua, LuaString, Result, Table, UserData, UserDataMethods};
use telemetry::{Kind, MetricDeclaration, Scripted, ScriptedCell};

use crate::context::VmContext;
use lua_vm::Vm;
use lua_vm::script;

/// The metrics of a VM in a server.
struct Metrics(Arc<Scripted>);

/// Sets the metrics of a VM.
pub fn count_into(vm: &Vm, metrics: Arc<Scripted>) {
    vm.lua().set_app_data(Metrics(metrics));
}

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let told = lua.app_data_ref::<Metrics>().map(|metrics| metrics.0.clone());
    let vm = Vm::of(lua)?;
    let own = told.or_else(|| VmContext::of(&vm).member.map(|member| member.group.metrics()));
    let raw = lua.create_table()?;
    raw.set("own", lua.create_userdata(Registry(own.unwrap_or_default()))?)?;
    script::open(lua, "prometheus", include_str!("../../../lua/prometheus.lua"), raw)
}

/// `metrics`: the metrics of one VM, and collectors.
pub(crate) fn open_metrics(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    let connections = |lua: &Lua, ()| Ok(Vm::of(lua)?.connection_count());
    raw.set("connections", lua.create_function(connections)?)?;
    // timers() → set now, set so far
    let timers = |lua: &Lua, ()| Ok(Vm::of(lua)?.timer_counts());
    raw.set("timers", lua.create_function(timers)?)?;
    script::open(lua, "metrics", include_str!("../../../lua/metrics.lua"), raw)
}

/// A module that is a field of `metrics`.
pub(crate) fn open_part(lua: &Lua, name: &str) -> Result<Table> {
    let require: Function = lua.globals().get("require")?;
    require.call::<Table>("tide.metrics")?.get(name)
}

struct Registry(Arc<Scripted>);

type Family = (LuaString, LuaString, LuaString, Vec<LuaString>, Vec<f64>);

impl UserData for Registry {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("declare", |_, this, family: Family| {
            let (name, kind, help, labels, bounds) = family;
            let kind = match &*kind.as_bytes() {
                b"counter" => Kind::Counter,
                b"gauge" => Kind::Gauge,
                _ => Kind::Histogram,
            };
            let (name, help) = (name.to_string_lossy(), help.to_string_lossy());
            let labels = labels.iter().map(LuaString::to_string_lossy).collect();
            let declared = MetricDeclaration { name, kind, help, labels, bounds };
            this.0.declare(declared).map_err(|why| Error::runtime(format!("prometheus: {why}")))
        });
        methods.add_method("cell", |_, this, (name, labels): (String, Vec<LuaString>)| {
            let labels: Vec<String> = labels.iter().map(LuaString::to_string_lossy).collect();
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            let cell = this.0.cell(&name, &labels);
            let (cell, own) =
                cell.ok_or_else(|| Error::runtime("prometheus: the metric has other labels"))?;
            Ok((Cell(cell), own))
        });
        methods.add_method("write", |_, this, ()| {
            let mut out = String::with_capacity(4096);
            this.0.write(&mut out);
            Ok(out)
        });
    }
}

struct Cell(Arc<ScriptedCell>);

impl UserData for Cell {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("add", |_, this, number: f64| {
            this.0.add(number);
            Ok(())
        });
        methods.add_method("set", |_, this, number: f64| {
            this.0.set(number);
            Ok(())
        });
        methods.add_method("observe", |_, this, number: f64| {
            this.0.observe(number);
            Ok(())
        });
        methods.add_method("get", |_, this, ()| Ok(this.0.get()));
        methods.add_method("buckets", |_, this, ()| Ok(this.0.bucket_counts().collect::<Vec<_>>()));
    }
}

#[cfg(test)]
mod tests;
