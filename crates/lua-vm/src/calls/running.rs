//! A VM that serves requests, and functions of scripts in it.

use std::ffi::c_int;
use std::rc::Rc;

use mlua::{Function, Result, ffi};

use crate::vm::Vm;

/// A VM that serves requests, and the function that replaces it. The VM exits when its last call,
/// connection and function reference are gone.
pub struct RunningVm {
    vm: Rc<Vm>,
    replace: Box<dyn Fn(&RunningVm)>,
}

impl RunningVm {
    /// `replace` is called when the VM holds more memory than it may.
    pub fn new(vm: Rc<Vm>, replace: impl Fn(&RunningVm) + 'static) -> RunningVm {
        RunningVm { vm, replace: Box::new(replace) }
    }

    pub fn vm(&self) -> &Rc<Vm> {
        &self.vm
    }

    /// Replaces the VM if it exceeds its memory limit: calls in flight end in the old one.
    pub fn check_memory(&self) {
        if self.vm.guard.is_too_large(&self.vm.meter, self.vm.main()) {
            (self.replace)(self);
        }
    }
}

impl Drop for RunningVm {
    fn drop(&mut self) {
        self.vm.exit(0);
    }
}

/// A function in the registry of a VM.
pub struct FunctionRef {
    running: Rc<RunningVm>,
    reference: c_int,
}

impl FunctionRef {
    pub fn new(running: &Rc<RunningVm>, function: Function) -> Result<FunctionRef> {
        let mut reference = 0;
        // SAFETY: moves one function into the registry.
        unsafe {
            running.vm.lua().exec_raw::<()>(function, |state| {
                reference = ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX);
            })?;
        }
        Ok(FunctionRef { running: running.clone(), reference })
    }

    pub fn running(&self) -> &Rc<RunningVm> {
        &self.running
    }

    pub(crate) fn reference(&self) -> c_int {
        self.reference
    }
}

impl Drop for FunctionRef {
    fn drop(&mut self) {
        // SAFETY: the reference was made for this function and is released once.
        unsafe {
            ffi::luaL_unref(self.running.vm.main(), ffi::LUA_REGISTRYINDEX, self.reference);
        }
    }
}
