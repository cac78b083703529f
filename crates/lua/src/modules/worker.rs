//! `worker`: the VMs of one program, and messages between them.
//!
//! Promises that a message is a copy, that messages of one sender on one channel arrive in order,
//! and that a full mailbox is told to the sender.

use mlua::{Function, Lua, Result, Table, Value};

use crate::limits::WORKER_LETTERS;
use crate::message::Message;
use crate::program::shared::Letter;
use crate::script;
use crate::vm::Vm;

pub(super) fn open(lua: &Lua) -> Result<Table> {
    let vm = Vm::of(lua)?;
    let raw = lua.create_table()?;
    let place = vm.options().place.clone();
    raw.set("id", place.as_ref().map_or(0, |place| place.index) + 1)?;
    raw.set("count", place.as_ref().map_or(1, |place| place.shared.workers()))?;
    let send = move |_: &Lua, (to, channel, value): (usize, String, Value)| {
        let value = Message::copy(&value)?;
        let Some(place) = &place else { return Ok(false) };
        let letter = Letter { from: place.index + 1, channel, value };
        Ok(to > 0 && place.shared.send(to - 1, letter))
    };
    raw.set("letters", WORKER_LETTERS)?;
    raw.set("send_raw", lua.create_function(send)?)?;
    script::open(lua, "worker", include_str!("../../../../lua/worker.lua"), raw)
}

/// Letters to this VM become events.
pub(crate) fn open_mailbox(vm: &Vm) {
    let Some(place) = &vm.options().place else { return };
    let Some(mut mailbox) = place.shared.mailbox(place.index) else { return };
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
                    crate::errors::log(&error);
                }
            });
        }
    });
}
