//! The memory meter of a VM: an allocator that counts.
//!
//! It stands between a state and its allocator. The collector of Lua 5.5 does not count the content
//! of long strings, so a VM with many small objects could gather gigabytes of strings before it
//! collects. Promises that it collects once large blocks have doubled since the last collection,
//! and that an operation of Lua code that would take a VM far beyond its limit fails (`not enough
//! memory`). Never refuses memory to a C function or to our own code: those must not fail.
//!
//! An allocator that returns null makes Lua collect and ask again; the meter uses that to start a
//! collection.

use std::cell::Cell;
use std::ffi::c_void;

use mlua::{Lua, ffi};

use crate::limits::{
    METER_FREE_BYTES, METER_LARGE_BYTES, METER_REFUSED_BYTES, PROFILE_ALLOCATED_BYTES,
};
use crate::stack::LuaState;

pub(crate) struct Meter {
    inner: Box<MeterState>,
    main: LuaState,
}

/// Takes the coroutine that runs, or null, and a number of bytes.
pub(crate) type OnAllocated = fn(LuaState, u64);

/// The user data of the state's allocator.
struct MeterState {
    allocate: ffi::lua_Alloc,
    data: *mut c_void,
    used: Cell<usize>,
    /// Bytes in blocks of [`METER_LARGE_BYTES`] and more.
    large: Cell<usize>,
    /// Bytes in large blocks at which the next collection begins.
    next: Cell<usize>,
    /// True after null was returned to start a collection.
    asked: Cell<bool>,
    limit: Cell<usize>,
    /// The coroutine that runs; null while no failure can be caught.
    running: Cell<LuaState>,
    /// Called while the VM holds more than its limit.
    on_full: Cell<Option<fn(LuaState)>>,
    /// Called for each [`PROFILE_ALLOCATED_BYTES`] while a profile is recorded.
    on_allocated: Cell<Option<OnAllocated>>,
    /// Bytes allocated since the last call.
    unsampled: Cell<usize>,
}

impl Meter {
    /// Replaces the allocator of a new state. [`Meter::restore`] must be called before the state
    /// ends, and the meter dropped after it.
    pub(crate) fn new(lua: &Lua, main: LuaState) -> Meter {
        let mut data = std::ptr::null_mut();
        // SAFETY: the state is alive.
        let allocate = unsafe { ffi::lua_getallocf(main, &raw mut data) };
        let inner = Box::new(MeterState {
            allocate,
            data,
            used: Cell::new(lua.used_memory()),
            large: Cell::new(0),
            next: Cell::new(METER_FREE_BYTES),
            asked: Cell::new(false),
            limit: Cell::new(usize::MAX),
            running: Cell::new(std::ptr::null_mut()),
            on_full: Cell::new(None),
            on_allocated: Cell::new(None),
            unsampled: Cell::new(0),
        });
        // SAFETY: `allocate_metered` calls the allocator it replaced, so all blocks come from one
        // allocator; the box does not move.
        unsafe {
            ffi::lua_setallocf(main, allocate_metered, (&raw const *inner).cast_mut().cast())
        };
        Meter { inner, main }
    }

    /// Restores the allocator that was replaced. Strings may still free their content through the
    /// meter.
    pub(crate) fn restore(&self) {
        // SAFETY: the state is alive, and this was its allocator.
        unsafe { ffi::lua_setallocf(self.main, self.inner.allocate, self.inner.data) };
    }

    /// Sets what is called with allocated bytes, from within the allocator.
    pub(crate) fn sample(&self, on_allocated: Option<OnAllocated>) {
        self.inner.on_allocated.set(on_allocated);
        let allocate = if on_allocated.is_some() { allocate_sampled } else { allocate_metered };
        // SAFETY: as in `new`; both functions use the same blocks.
        unsafe {
            ffi::lua_setallocf(self.main, allocate, (&raw const *self.inner).cast_mut().cast())
        };
    }

    /// Bytes the VM holds.
    pub(crate) fn used(&self) -> usize {
        self.inner.used.get()
    }

    pub(crate) fn limit(&self) -> usize {
        self.inner.limit.get()
    }

    /// Sets what is called with the running coroutine, or null, from within the allocator, while
    /// the VM holds more than its limit.
    pub(crate) fn on_full(&self, on_full: fn(LuaState)) {
        self.inner.on_full.set(Some(on_full));
    }

    pub(crate) fn set_limit(&self, bytes: usize) {
        self.inner.limit.set(bytes);
    }

    /// Sets the coroutine that runs.
    #[inline]
    pub(crate) fn runs(&self, thread: Option<LuaState>) {
        self.inner.running.set(thread.unwrap_or(std::ptr::null_mut()));
    }
}

impl Meter {
    /// The coroutine that the VM resumed; null while none runs.
    pub(crate) fn running(&self) -> LuaState {
        self.inner.running.get()
    }
}

impl MeterState {
    /// True if Lua should collect first: it asks again if this is an object's block.
    #[inline]
    fn collects_first(&self) -> bool {
        (self.large.get() > self.next.get() || self.asked.get()) && self.collects_now()
    }

    #[cold]
    fn collects_now(&self) -> bool {
        if self.asked.replace(false) {
            self.next.set((self.large.get() * 2).max(METER_FREE_BYTES));
            return false;
        }
        let first = self.large.get() > self.next.get();
        self.asked.set(first);
        first
    }

    /// Has the running coroutine checked between its instructions.
    #[cold]
    fn is_full(&self) {
        if let Some(on_full) = self.on_full.get() {
            on_full(self.running.get());
        }
    }

    /// True if Lua code, not a C function, asks for so much that the VM would exceed its limit.
    #[inline]
    fn exceeds_limit(&self, more: usize) -> bool {
        more >= METER_REFUSED_BYTES
            && self.used.get() + more > self.limit.get()
            && runs_lua(self.running.get())
    }
}

/// True if the function on top of a thread is a Lua function.
#[cold]
fn runs_lua(thread: LuaState) -> bool {
    if thread.is_null() {
        return false;
    }
    // SAFETY: a plain structure that Lua fills in; the thread runs. Reading a function's source
    // allocates nothing.
    unsafe {
        let mut about: ffi::lua_Debug = std::mem::zeroed();
        ffi::lua_getstack(thread, 0, &raw mut about) != 0
            && ffi::lua_getinfo(thread, c"S".as_ptr(), &raw mut about) != 0
            && !about.what.is_null()
            && *about.what.cast::<u8>() != b'C'
    }
}

/// The allocator while a profile of allocations is recorded.
unsafe extern "C" fn allocate_sampled(
    data: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: the arguments are passed on unchanged.
    let given = unsafe { allocate_metered(data, block, old, new) };
    let before = if block.is_null() { 0 } else { old };
    if !given.is_null() && new > before {
        // SAFETY: as in `allocate_metered`.
        let meter = unsafe { &*data.cast::<MeterState>() };
        let bytes = meter.unsampled.get() + new - before;
        if bytes < PROFILE_ALLOCATED_BYTES {
            meter.unsampled.set(bytes);
        } else {
            meter.unsampled.set(0);
            if let Some(on_allocated) = meter.on_allocated.get() {
                on_allocated(meter.running.get(), bytes as u64);
            }
        }
    }
    given
}

unsafe extern "C" fn allocate_metered(
    data: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: the state was given this pointer, whose box outlives it.
    let meter = unsafe { &*data.cast::<MeterState>() };
    // For a new block, the old size is the kind of the object.
    let before = if block.is_null() { 0 } else { old };
    if new > before {
        let is_object = block.is_null() && old != 0;
        if (is_object && meter.collects_first()) || meter.exceeds_limit(new - before) {
            return std::ptr::null_mut();
        }
    }
    // SAFETY: the arguments are passed on unchanged, or those of a block that Lua shrinks.
    let given = unsafe {
        if 0 < new && new < before && before < METER_LARGE_BYTES {
            shrink(meter, block, before, new)
        } else {
            (meter.allocate)(meter.data, block, old, new)
        }
    };
    if given.is_null() && new > 0 {
        return given;
    }
    meter.used.set((meter.used.get() + new).saturating_sub(before));
    if new > before && meter.used.get() > meter.limit.get() {
        meter.is_full();
    }
    if new >= METER_LARGE_BYTES || before >= METER_LARGE_BYTES {
        let large = |bytes: usize| if bytes >= METER_LARGE_BYTES { bytes } else { 0 };
        meter.large.set((meter.large.get() + large(new)).saturating_sub(large(before)));
    }
    given
}

/// Moves a small block to a smaller one: the process's allocator leaves it where it is unless half
/// of it is unused. Lua shrinks what it will hold for long, such as code and the stacks of threads.
///
/// # Safety
/// The block has `before` bytes, more than `new`, and is not used afterwards unless it is returned.
#[cold]
unsafe fn shrink(meter: &MeterState, block: *mut c_void, before: usize, new: usize) -> *mut c_void {
    // SAFETY: promised by the caller; the new block does not overlap.
    unsafe {
        let smaller = (meter.allocate)(meter.data, std::ptr::null_mut(), 0, new);
        if smaller.is_null() {
            // Without memory for a second block, the first one is left to the allocator: Lua has no
            // use for an error where it frees memory.
            return (meter.allocate)(meter.data, block, before, new);
        }
        smaller.copy_from_nonoverlapping(block, new);
        (meter.allocate)(meter.data, block, before, 0);
        smaller
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ffi::c_void;

    use super::{MeterState, allocate_metered};

    /// An allocator without memory for another block: it shrinks the one that there is.
    unsafe extern "C" fn exhausted(
        _: *mut c_void,
        block: *mut c_void,
        _: usize,
        _: usize,
    ) -> *mut c_void {
        block
    }

    #[test]
    fn a_block_shrinks_without_memory_for_a_second_one() {
        let meter = MeterState {
            allocate: exhausted,
            data: std::ptr::null_mut(),
            used: Cell::new(768),
            large: Cell::new(0),
            next: Cell::new(usize::MAX),
            asked: Cell::new(false),
            limit: Cell::new(usize::MAX),
            running: Cell::new(std::ptr::null_mut()),
            on_full: Cell::new(None),
            on_allocated: Cell::new(None),
            unsampled: Cell::new(0),
        };
        let data = (&raw const meter).cast_mut().cast();
        let mut block = [0u8; 768];
        let block = block.as_mut_ptr().cast();
        // SAFETY: the allocator has no memory, so nothing is read, written or freed.
        let shrunk = unsafe { allocate_metered(data, block, 768, 640) };
        assert_eq!((shrunk, meter.used.get()), (block, 640));
    }
}
