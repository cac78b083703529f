//! `signal`: signals of the process as events.
//!
//! The module is called: `signal("SIGHUP", fn)` returns the previous function. Promises that a
//! handler runs in a coroutine of its own, at once when the signal arrives. In a program SIGTERM
//! drains, SIGINT ends, SIGUSR1 reopens the log file, unless it has handlers for them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use mlua::{Function, Lua, Result, Table, Value};
use telemetry::event;
use telemetry::log::Level;
use tokio::signal::unix::{SignalKind, signal};

use crate::context::VmContext;
use crate::drain;
use lua_vm::Vm;

/// Signals that scripts may handle: those that can be caught and that the runtime does not use.
const SIGNALS: &[(&str, i32)] = &[
    ("SIGHUP", libc::SIGHUP),
    ("SIGINT", libc::SIGINT),
    ("SIGQUIT", libc::SIGQUIT),
    ("SIGUSR1", libc::SIGUSR1),
    ("SIGUSR2", libc::SIGUSR2),
    ("SIGPIPE", libc::SIGPIPE),
    ("SIGALRM", libc::SIGALRM),
    ("SIGTERM", libc::SIGTERM),
    ("SIGCHLD", libc::SIGCHLD),
    ("SIGCONT", libc::SIGCONT),
    ("SIGTSTP", libc::SIGTSTP),
    ("SIGTTIN", libc::SIGTTIN),
    ("SIGTTOU", libc::SIGTTOU),
    ("SIGWINCH", libc::SIGWINCH),
    ("SIGURG", libc::SIGURG),
    ("SIGIO", libc::SIGIO),
];

/// The signals that a program handles from the beginning.
const DEFAULTS: [&str; 3] = ["SIGINT", "SIGTERM", "SIGUSR1"];

/// The handlers of a VM; a watched signal without a handler has its default action.
#[derive(Clone, Default)]
struct Handlers(Rc<RefCell<HashMap<i32, Option<Function>>>>);

impl Handlers {
    fn of(vm: &Vm) -> Handlers {
        if let Some(handlers) = vm.lua().app_data_ref::<Handlers>() {
            return handlers.clone();
        }
        let handlers = Handlers::default();
        vm.lua().set_app_data(handlers.clone());
        handlers
    }
}

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let meta = lua.create_table()?;
    let call = |lua: &Lua, (_, name, handler): (Table, String, Option<Function>)| {
        let vm = Vm::of(lua)?;
        let Some(&(name, number)) = SIGNALS.iter().find(|(known, _)| *known == name) else {
            let text = format!("bad argument #1 to 'signal' (there is no signal {name:?})");
            return Err(mlua::Error::runtime(text));
        };
        if VmContext::of(&vm).member.is_none() {
            return Err(mlua::Error::runtime("signals belong to the server here, not to a script"));
        }
        watch(&vm, name, number).map_err(mlua::Error::runtime)?;
        let handlers = Handlers::of(&vm);
        let previous = handlers.0.borrow_mut().entry(number).or_default().take();
        let previous = match previous {
            // The function of a handler, which a program may call or set again.
            None if DEFAULTS.contains(&name) => {
                Some(lua.create_function(move |lua, _: Value| {
                    by_default(&*Vm::of(lua)?, number);
                    Ok(())
                })?)
            }
            previous => previous,
        };
        handlers.0.borrow_mut().insert(number, handler);
        Ok(previous)
    };
    meta.set("__call", lua.create_function(call)?)?;
    table.set_metatable(Some(meta))?;
    Ok(table)
}

/// Watches the signals with a default action in a program.
pub fn watch_signals(vm: &Vm) -> io::Result<()> {
    for name in DEFAULTS {
        if let Some(&(name, number)) = SIGNALS.iter().find(|(known, _)| *known == name) {
            watch(vm, name, number)?;
        }
    }
    Ok(())
}

fn watch(vm: &Vm, name: &'static str, number: i32) -> io::Result<()> {
    let handlers = Handlers::of(vm);
    if handlers.0.borrow().contains_key(&number) {
        return Ok(());
    }
    let mut arrivals = signal(SignalKind::from_raw(number))?;
    handlers.0.borrow_mut().insert(number, None);
    let weak = vm.weak();
    net::task::spawn_local(async move {
        while arrivals.recv().await.is_some() {
            let Some(vm) = weak.upgrade() else { return };
            let handler = Handlers::of(&vm).0.borrow().get(&number).cloned().flatten();
            let Some(handler) = handler else {
                by_default(&vm, number);
                continue;
            };
            let begun = vm.turn(|turn| turn.start(&handler, name, None));
            if let Some(Err(error)) = begun {
                lua_vm::errors::log(&error);
            }
        }
    });
    Ok(())
}

fn by_default(vm: &Vm, number: i32) {
    match number {
        libc::SIGTERM => drain::drain(vm),
        libc::SIGUSR1 => {
            let member = VmContext::of(vm).member;
            for log in member.into_iter().flat_map(|member| [member.log, member.access]).flatten() {
                if let Err(error) = log.reopen() {
                    event!(
                        Level::Error,
                        "log file cannot be reopened, logging to the old one",
                        error = error
                    );
                }
            }
        }
        _ => vm.exit(0),
    }
}
