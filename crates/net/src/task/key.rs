//! A task's key: worker, slot and generation in one word, so that a waker is one word.
//!
//! A [`Waker`] made of a [`Key`] owns nothing: cloning and dropping it are free, and it may be
//! stored for ever. The task is looked up when the waker fires. Slots are reused, so a key carries
//! a generation, which repeats after 2^24 tasks; an older waker then causes a spurious wake, which
//! every future has to tolerate.

use std::mem::ManuallyDrop;
use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::{executor, remote_wake};

const SLOT_BITS: u32 = 24;
const GENERATION_BITS: u32 = 24;
/// Most tasks of a worker.
pub(super) const TASKS_MAX: usize = 1 << SLOT_BITS;
/// Most workers of a process.
pub(super) const EXECUTORS_MAX: usize = 1 << (u64::BITS - SLOT_BITS - GENERATION_BITS);

// A waker has one word for its task.
const _: () = assert!(usize::BITS >= u64::BITS);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u64);

impl Key {
    /// Truncates the serial number of the task to the generation.
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

    /// Returns a waker that needs no drop.
    #[inline]
    pub(super) fn waker(self) -> ManuallyDrop<Waker> {
        // SAFETY: the contract of `RawWaker` holds for the functions of `VTABLE`: they treat the
        // word as a number and never as an address, so nothing is owned or freed, cloning and
        // dropping are no-ops, and waking is safe on every thread.
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
