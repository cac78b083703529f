//! The ids of coroutines, streams and calls: an index and a generation.
//!
//! An id is stale once what it named is over, and is not reused within 2^32 uses of its index.

/// Identifies one wait of one coroutine: stale once it has been woken, so that of a deadline and a
/// result the later does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The handle of a connection or listener of this VM; stale once it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct StreamHandle {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The id of a call; stale once it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct CallId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}
