//! The names of a task: its key, and the handle that cancels it.
//!
//! A key has worker, slot and generation in one word, so that a waker is one word. Slots are
//! reused: the generation tells their tasks apart and repeats after 2^24 tasks; an older waker then
//! causes a spurious wake, which every future has to tolerate.

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

    /// The key as one word, for [`Key::from_word`].
    #[inline]
    pub(super) fn word(self) -> usize {
        self.0 as usize
    }

    #[inline]
    pub(super) fn from_word(word: usize) -> Key {
        Key(word as u64)
    }

    #[inline]
    pub(super) fn slot(self) -> usize {
        (self.0 & (TASKS_MAX as u64 - 1)) as usize
    }
}

/// Cancels a task, from any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortHandle {
    pub(super) key: Key,
    /// The task's number on its worker, never reused: unlike a wake, a late cancellation must not
    /// reach another task.
    pub(super) serial: u64,
}
