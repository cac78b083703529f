//! What a VM holds, counted where it is allocated.
//!
//! Owns the way between a state and its allocator. The collector of Lua 5.5 looks at numbers of
//! its own, in which the content of long strings is not, so a VM with many small objects could
//! gather gigabytes of strings before it looks. Promises that it collects once large blocks have
//! doubled since it last did, and that an operation of Lua code which would take a VM far beyond
//! what it may hold fails instead (`not enough memory`). Never refuses what a function of C or of
//! ours asks for: that must not fail.
//!
//! The one trick: an allocator that gives nothing makes Lua collect and ask once more.

use std::cell::Cell;
use std::ffi::c_void;

use mlua::{Lua, ffi};

use crate::limits::{METER_FREE_BYTES, METER_LARGE_BYTES, METER_REFUSED_BYTES};
use crate::stack::State;

pub(crate) struct Meter {
    inner: Box<Inner>,
    main: State,
}

/// What the state's allocator is given with each call.
struct Inner {
    allocate: ffi::lua_Alloc,
    data: *mut c_void,
    used: Cell<usize>,
    /// Of that, in blocks of [`METER_LARGE_BYTES`] and more.
    large: Cell<usize>,
    /// With how much of that the next collection begins.
    next: Cell<usize>,
    /// Nothing was given, to have Lua collect.
    asked: Cell<bool>,
    limit: Cell<usize>,
    /// The coroutine that runs; null where nothing is protected from a failure.
    running: Cell<State>,
}

impl Meter {
    /// Takes its place before the allocator of a new state. It must be let go of before the state
    /// ends ([`Meter::step_aside`]) and dropped after it.
    pub(crate) fn new(lua: &Lua, main: State) -> Meter {
        let mut data = std::ptr::null_mut();
        // SAFETY: the state is alive.
        let allocate = unsafe { ffi::lua_getallocf(main, &raw mut data) };
        let inner = Box::new(Inner {
            allocate,
            data,
            used: Cell::new(lua.used_memory()),
            large: Cell::new(0),
            next: Cell::new(METER_FREE_BYTES),
            asked: Cell::new(false),
            limit: Cell::new(usize::MAX),
            running: Cell::new(std::ptr::null_mut()),
        });
        // SAFETY: `allocate` hands everything on to the allocator that was there, so blocks of
        // before and after are of one kind; the box stays where it is.
        unsafe {
            ffi::lua_setallocf(main, allocate_metered, (&raw const *inner).cast_mut().cast())
        };
        Meter { inner, main }
    }

    /// Puts the allocator back that was there. Strings may still give their content back here.
    pub(crate) fn step_aside(&self) {
        // SAFETY: the state is alive, and its allocator was the one that is put back.
        unsafe { ffi::lua_setallocf(self.main, self.inner.allocate, self.inner.data) };
    }

    /// Bytes the VM holds.
    pub(crate) fn used(&self) -> usize {
        self.inner.used.get()
    }

    pub(crate) fn limit(&self) -> usize {
        self.inner.limit.get()
    }

    pub(crate) fn set_limit(&self, bytes: usize) {
        self.inner.limit.set(bytes);
    }

    /// A coroutine runs from now on, or none.
    #[inline]
    pub(crate) fn runs(&self, thread: Option<State>) {
        self.inner.running.set(thread.unwrap_or(std::ptr::null_mut()));
    }
}

impl Meter {
    /// The coroutine that the VM resumed; null while none runs.
    pub(crate) fn running(&self) -> State {
        self.inner.running.get()
    }
}

impl Inner {
    /// Whether Lua is to collect first: it asks again if this is an object's block.
    #[inline]
    fn collects_first(&self) -> bool {
        (self.large.get() > self.next.get() || self.asked.get()) && self.asks()
    }

    #[cold]
    fn asks(&self) -> bool {
        if self.asked.replace(false) {
            self.next.set((self.large.get() * 2).max(METER_FREE_BYTES));
            return false;
        }
        let first = self.large.get() > self.next.get();
        self.asked.set(first);
        first
    }

    /// Whether Lua code, and nobody else, asks for so much that the VM would hold too much.
    #[inline]
    fn refuses(&self, more: usize) -> bool {
        more >= METER_REFUSED_BYTES
            && self.used.get() + more > self.limit.get()
            && runs_lua(self.running.get())
    }
}

/// Whether the function on top of a thread, if there is one, is one of Lua.
#[cold]
fn runs_lua(thread: State) -> bool {
    if thread.is_null() {
        return false;
    }
    // SAFETY: a plain structure that Lua fills in; the thread runs. Looking at a function's source
    // allocates nothing.
    unsafe {
        let mut about: ffi::lua_Debug = std::mem::zeroed();
        ffi::lua_getstack(thread, 0, &raw mut about) != 0
            && ffi::lua_getinfo(thread, c"S".as_ptr(), &raw mut about) != 0
            && !about.what.is_null()
            && *about.what.cast::<u8>() != b'C'
    }
}

unsafe extern "C" fn allocate_metered(
    data: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: the state was given this pointer, whose box outlives it.
    let meter = unsafe { &*data.cast::<Inner>() };
    // Of a block that is new, the old size says what it is for.
    let before = if block.is_null() { 0 } else { old };
    if new > before {
        let is_object = block.is_null() && old != 0;
        if (is_object && meter.collects_first()) || meter.refuses(new - before) {
            return std::ptr::null_mut();
        }
    }
    // SAFETY: handed on as it came.
    let given = unsafe { (meter.allocate)(meter.data, block, old, new) };
    if given.is_null() && new > 0 {
        return given;
    }
    meter.used.set((meter.used.get() + new).saturating_sub(before));
    if new >= METER_LARGE_BYTES || before >= METER_LARGE_BYTES {
        let large = |bytes: usize| if bytes >= METER_LARGE_BYTES { bytes } else { 0 };
        meter.large.set((meter.large.get() + large(new)).saturating_sub(large(before)));
    }
    given
}
