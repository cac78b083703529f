//! A VM without a loop that moves between threads: it runs one function, which may block.
//!
//! Promises that the function's arguments and results are copies, so that nothing of the state is
//! reachable from outside of it.

use std::rc::Rc;

use mlua::{Function, MultiValue, Value};

use crate::errors;
use crate::preload::Module;
use crate::vm::{Vm, VmOptions};
use crate::vm_message::{Message, into_values};

/// A VM and the function that it runs.
pub struct MovableVm {
    // Before the VM, which it has references to.
    function: Function,
    pcall: Function,
    vm: Rc<Vm>,
}

// SAFETY: the state, the `Vm` and every reference to either are reachable from this value only: it
// is not cloned, lends neither, and exchanges copies with its owner. So they are on one thread at a
// time, with their reference counts. Lua and mlua keep nothing of a state in the thread. The
// modules that are given to `load` may not either; those of `hive` are pure functions.
unsafe impl Send for MovableVm {}

type Result<T> = std::result::Result<T, Message>;

impl MovableVm {
    /// Makes a VM with `modules`, and runs the code in it with these arguments, at once. The error
    /// is what the code raised, or why it cannot be used.
    pub fn load(
        options: VmOptions,
        modules: &[Module],
        code: &[u8],
        arguments: Vec<Message>,
    ) -> Result<MovableVm> {
        let vm = Vm::new(options, modules).map_err(text_of)?;
        let chunk = vm.lua().load(code).set_name("=hive").into_function();
        let function = chunk.map_err(text_of)?;
        let pcall = vm.lua().globals().get("pcall").map_err(text_of)?;
        let mut movable = MovableVm { function, pcall, vm };
        let mut results = movable.protected(arguments)?;
        match (results.pop_front(), results.is_empty()) {
            (Some(Value::Function(function)), true) => movable.function = function,
            _ => return Err(Message::Bytes(b"chunk code must return a function".to_vec())),
        }
        Ok(movable)
    }

    /// Calls the function; the error is what it raised.
    pub fn call(&mut self, arguments: Vec<Message>) -> Result<Vec<Message>> {
        Message::copy_lenient(&self.protected(arguments)?).map_err(text_of)
    }

    fn protected(&self, arguments: Vec<Message>) -> Result<MultiValue> {
        let mut arguments = into_values(arguments, self.vm.lua()).map_err(text_of)?;
        arguments.push_front(Value::Function(self.function.clone()));
        let mut results: MultiValue = self.pcall.call(arguments).map_err(text_of)?;
        if results.pop_front() == Some(Value::Boolean(true)) {
            return Ok(results);
        }
        let error = Message::copy_lenient(&results).map_err(text_of)?;
        Err(error.into_iter().next().unwrap_or(Message::Nil))
    }
}

/// The text of an error that is not a value of Lua.
fn text_of(error: mlua::Error) -> Message {
    Message::Bytes(errors::text(&error).into_bytes())
}
