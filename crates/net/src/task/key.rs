//! Which task of which worker: one word, so that a waker is one.
//!
//! A [`Waker`] made of a [`Key`] owns nothing: to clone and to drop it costs nothing, and it may be
//! kept for ever. What it names is looked up when it wakes. A task's place is used again, so a key
//! says in which generation it means it; a generation comes again after 2^24 tasks, and a waker
//! that is older wakes a task that has nothing to do, which every future has to bear.

use std::mem::ManuallyDrop;
use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::{executor, remote_wake};

const SLOT_BITS: u32 = 24;
const GENERATION_BITS: u32 = 24;
/// Tasks that a worker may have at a time.
pub(super) const TASKS_MAX: usize = 1 << SLOT_BITS;
/// Workers that a process may have at a time.
pub(super) const HIVES_MAX: usize = 1 << (u64::BITS - SLOT_BITS - GENERATION_BITS);

// A waker has one word for its task.
const _: () = assert!(usize::BITS >= u64::BITS);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u64);

impl Key {
    /// The serial number of the task is cut to the generation.
    #[inline]
    pub(super) fn new(executor: u16, slot: usize, serial: u64) -> Key {
        let generation = serial & ((1 << GENERATION_BITS) - 1);
        let slot = slot as u64 & (TASKS_MAX as u64 - 1);
        Key(u64::from(executor) << (SLOT_BITS + GENERATION_BITS) | generation << SLOT_BITS | slot)
    }

    #[inline]
    pub(super) fn executor(self) -> u16 {
        (self.0 >> (SLOT_BITS + GENERATION_BITS)) as u16
    }

    #[inline]
    pub(super) fn slot(self) -> usize {
        (self.0 & (TASKS_MAX as u64 - 1)) as usize
    }

    /// A waker that needs no drop.
    #[inline]
    pub(super) fn waker(self) -> ManuallyDrop<Waker> {
        // SAFETY: the contract of `RawWaker` holds for the functions of `VTABLE`: they take the
        // word for the number it is and never for an address, so nothing is owned or freed, cloning
        // and dropping are free, and waking is safe on every thread.
        ManuallyDrop::new(unsafe { Waker::from_raw(self.raw()) })
    }

    #[inline]
    fn raw(self) -> RawWaker {
        RawWaker::new(ptr::without_provenance(self.0 as usize), &VTABLE)
    }

    #[inline]
    fn of(word: *const ()) -> Key {
        Key(word.addr() as u64)
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, drop);

fn clone(word: *const ()) -> RawWaker {
    Key::of(word).raw()
}

fn wake(word: *const ()) {
    let key = Key::of(word);
    if !executor::wake_here(key) {
        remote_wake::wake(key);
    }
}

fn drop(_: *const ()) {}
