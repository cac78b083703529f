//! `worker`: the VMs of one program, and messages between them.
//!
//! Promises that a message is a copy, that messages of one sender on one channel arrive in order,
//! and that `send` returns false if the mailbox is full.

use mlua::{Function, Lua, Result, Table, Value};

use crate::context::VmContext;
use crate::group::WorkerMessage;
use crate::limits::WORKER_LETTERS;
use lua_vm::Vm;
use lua_vm::script;
use lua_vm::vm_message::Message;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let vm = Vm::of(lua)?;
    let raw = lua.create_table()?;
    let member = VmContext::of(&vm).member;
    raw.set("id", member.as_ref().map_or(0, |member| member.index) + 1)?;
    raw.set("count", member.as_ref().map_or(1, |member| member.group.workers()))?;
    let send = move |_: &Lua, (to, channel, value): (usize, String, Value)| {
        let value = Message::copy(&value)?;
        let Some(member) = &member else { return Ok(false) };
        let letter = WorkerMessage { from: member.index + 1, channel, value };
        Ok(to > 0 && member.group.send(to - 1, letter))
    };
    raw.set("letters", WORKER_LETTERS)?;
    raw.set("send_raw", lua.create_function(send)?)?;
    script::open(lua, "worker", include_str!("../../../lua/worker.lua"), raw)
}

/// Turns messages to this VM into events.
pub fn open_mailbox(vm: &Vm) {
    let Some(member) = VmContext::of(vm).member else { return };
    let Some(mut mailbox) = member.group.take_receiver(member.index) else { return };
    let weak = vm.weak();
    net::task::spawn_local(async move {
        while let Some(letter) = mailbox.recv().await {
            let Some(vm) = weak.upgrade() else { return };
            vm.turn(|turn| {
                let lua = turn.lua();
                let delivered =
                    lua.load("return require('tide.worker').deliver").eval::<Function>();
                let delivered = delivered.and_then(|deliver| {
                    let value = letter.value.into_value(lua)?;
                    turn.start(&deliver, (letter.channel, value, letter.from), None)
                });
                if let Err(error) = delivered {
                    lua_vm::errors::log(&error);
                }
            });
        }
    });
}
