//! State protected by the GIL.
//!
//! Any thread that holds the GIL may access Python objects. No value is borrowed while Python code
//! runs, so two threads never access it at the same time. Free-threaded builds have no GIL: the
//! wheel is not built for them (python/build.rs), and the package does not load there.

use std::cell::{Cell, RefCell, RefMut};

/// A `RefCell` that is borrowed only between calls into Python.
#[derive(Default)]
pub struct GilCell<T>(RefCell<T>);

// SAFETY: as the module says, every access happens with the GIL held and ends before its release.
unsafe impl<T> Send for GilCell<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub fn new(value: T) -> GilCell<T> {
        GilCell(RefCell::new(value))
    }

    /// Borrows the value; the borrow must end before Python code runs.
    pub fn get(&self) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }
}

impl<T> GilCell<Option<T>> {
    /// An empty cell for a static.
    pub(crate) const fn empty() -> GilCell<Option<T>> {
        GilCell(RefCell::new(None))
    }
}

impl<T: Default> GilCell<T> {
    pub(crate) fn take(&self) -> T {
        self.0.take()
    }
}

/// A `Cell` for a small value.
#[derive(Default)]
pub(crate) struct GilFlag<T: Copy>(Cell<T>);

// SAFETY: as for `GilCell`.
unsafe impl<T: Copy> Send for GilFlag<T> {}
// SAFETY: as for `GilCell`.
unsafe impl<T: Copy> Sync for GilFlag<T> {}

impl<T: Copy> GilFlag<T> {
    pub(crate) fn new(value: T) -> GilFlag<T> {
        GilFlag(Cell::new(value))
    }

    pub(crate) fn get(&self) -> T {
        self.0.get()
    }

    pub(crate) fn set(&self, value: T) {
        self.0.set(value);
    }
}
