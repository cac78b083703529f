//! `profiler`: CPU and allocation profiles of the program, for pprof, as folded stacks and as a
//! flame graph.
//!
//! What is recorded is in `lua_vm::profile`, how long in `lua/profiler.lua`. A server renders
//! profiles of its VMs with [`ProfileFormat`].

use std::io;
use std::time::Duration;

use lua_vm::profile::{Profile, ProfileKind, Timeline};
use lua_vm::{Vm, script};
use mlua::{Lua, Result, Table, UserData, UserDataMethods};

mod flame_graph;
mod pprof;
mod recording;
#[cfg(test)]
mod tests;

pub use recording::{ProfileError, WorkerProfile, add_up, record};

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    // cpu(samples a second) → true; or nil, reason
    raw.set(
        "cpu",
        lua.create_function(|lua, per_second| begin(lua, ProfileKind::Cpu { per_second }))?,
    )?;
    raw.set("allocations", lua.create_function(|lua, ()| begin(lua, ProfileKind::Allocations))?)?;
    // finish() → profile | nil
    let finish = |lua: &Lua, ()| Ok(Vm::of(lua)?.end_profile().map(FinishedProfile));
    raw.set("finish", lua.create_function(finish)?)?;
    // begin_timeline() → true; or nil, reason
    let begin = |lua: &Lua, ()| {
        Ok(match Vm::of(lua)?.begin_timeline() {
            Ok(()) => (Some(true), None),
            Err(why) => (None, Some(why)),
        })
    };
    raw.set("begin_timeline", lua.create_function(begin)?)?;
    // finish_timeline() → text | nil
    let finish = |lua: &Lua, ()| Ok(Vm::of(lua)?.end_timeline().map(trace_events));
    raw.set("finish_timeline", lua.create_function(finish)?)?;
    script::open(lua, "profiler", include_str!("../../../lua/profiler.lua"), raw)
}

fn begin(lua: &Lua, kind: ProfileKind) -> Result<(Option<bool>, Option<String>)> {
    Ok(match Vm::of(lua)?.begin_profile(kind) {
        Ok(()) => (Some(true), None),
        Err(why) => (None, Some(why)),
    })
}

/// A format in which a profile is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileFormat {
    /// The gzipped Protocol Buffers of google/pprof.
    Pprof,
    /// A flame graph as SVG.
    Svg,
    /// A line `outer;inner WEIGHT` for each stack.
    Folded,
}

impl ProfileFormat {
    pub const ALL: [ProfileFormat; 3] =
        [ProfileFormat::Pprof, ProfileFormat::Svg, ProfileFormat::Folded];

    pub const fn slug(self) -> &'static str {
        match self {
            ProfileFormat::Pprof => "pprof",
            ProfileFormat::Svg => "svg",
            ProfileFormat::Folded => "folded",
        }
    }

    pub const fn media_type(self) -> &'static str {
        match self {
            ProfileFormat::Pprof => "application/gzip",
            ProfileFormat::Svg => "image/svg+xml",
            ProfileFormat::Folded => "text/plain; charset=utf-8",
        }
    }

    /// The profile in this format.
    pub fn render(self, profile: &Profile) -> io::Result<Vec<u8>> {
        match self {
            ProfileFormat::Pprof => pprof::encode(profile).map_err(io::Error::other),
            ProfileFormat::Svg => Ok(flame_graph::draw(profile).into_bytes()),
            ProfileFormat::Folded => Ok(folded(profile).into_bytes()),
        }
    }
}

/// A profile as Lua has it.
struct FinishedProfile(Profile);

impl UserData for FinishedProfile {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        for (name, format) in [
            ("pprof", ProfileFormat::Pprof),
            ("flamegraph", ProfileFormat::Svg),
            ("folded", ProfileFormat::Folded),
        ] {
            methods.add_method(name, move |lua, this, ()| {
                lua.create_string(format.render(&this.0).map_err(mlua::Error::external)?)
            });
        }
        // samples() → stacks that were recorded, weight outside of Lua, weight beyond the limits
        methods.add_method("samples", |_, this, ()| {
            let samples: u64 = this.0.stacks.iter().map(|stack| stack.samples).sum();
            Ok((samples, this.0.outside, this.0.left_out))
        });
    }
}

/// A time line as Trace Event Format, which Perfetto and Chrome show: JSON, times in microseconds.
fn trace_events(timeline: Timeline) -> String {
    let pid = std::process::id();
    let places: Vec<String> = timeline.places.iter().map(|place| json_text(place)).collect();
    let mut text = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for slice in &timeline.slices {
        let (begin, duration) = (micros(slice.begin), micros(slice.duration));
        let place = &places[slice.place as usize];
        text.push_str(&format!(
            "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{},\"ts\":{begin:.3},\"dur\":{duration:.3},\
             \"name\":{place}}},\n",
            slice.task
        ));
    }
    text.push_str(&format!(
        "{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_name\",\
         \"args\":{{\"name\":\"coroutines\",\"left_out\":{}}}}}]}}\n",
        timeline.left_out
    ));
    text
}

fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1000.0
}

/// A text as a string of JSON.
fn json_text(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            character if character < ' ' => out.push(' '),
            character => out.push(character),
        }
    }
    out.push('"');
    out
}

/// The name of a function in a list of stacks: `name (file:line)`.
fn label(profile: &Profile, function: u32) -> String {
    let about = &profile.functions[function as usize];
    match about.line {
        -1 => format!("{} [C]", about.name),
        line => format!("{} ({}:{line})", about.name, about.source),
    }
}

/// The names of the functions of each stack, the outermost first, with its weight; sorted.
fn named_stacks(profile: &Profile) -> Vec<(Vec<String>, u64)> {
    let mut stacks = std::collections::BTreeMap::new();
    for stack in &profile.stacks {
        let names = stack.frames.iter().rev().map(|frame| label(profile, frame.function));
        *stacks.entry(names.collect::<Vec<_>>()).or_default() += stack.weight;
    }
    for (name, weight) in [("outside of Lua", profile.outside), ("left out", profile.left_out)] {
        if weight > 0 {
            stacks.insert(vec![format!("[{name}]")], weight);
        }
    }
    stacks.into_iter().collect()
}

/// One line for each stack, `a;b;c WEIGHT`, as flame graph tools read it.
fn folded(profile: &Profile) -> String {
    let mut text = String::new();
    for (names, weight) in named_stacks(profile) {
        let names: Vec<String> = names.iter().map(|name| name.replace([';', '\n'], " ")).collect();
        text.push_str(&format!("{} {weight}\n", names.join(";")));
    }
    text
}
