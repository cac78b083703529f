//! Counters that a parent and its child processes share: one per process, in one page of memory.
//!
//! Reading and writing one is a load and a store, without a system call or a lock. The memory stays
//! as long as any process has it open.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use crate::inherit::InheritError;
use crate::platform;
use crate::stream::own_descriptor;

/// An array of counters in shared memory.
#[derive(Debug)]
pub struct SharedCounts {
    memory: MmapRaw,
    file: OwnedFd,
}

impl SharedCounts {
    /// Number of counters.
    pub const LEN: usize = 1024;
    const BYTES: usize = Self::LEN * size_of::<AtomicU32>();

    /// Creates shared memory for children to inherit; all counters are `value`.
    pub fn new(value: u32) -> io::Result<SharedCounts> {
        let counts = SharedCounts::map(platform::shared_memory(Self::BYTES)?)?;
        (0..Self::LEN).for_each(|index| counts.set(index, value));
        Ok(counts)
    }

    /// Opens the parent's counters, inherited as this descriptor number.
    pub fn inherited(descriptor: RawFd) -> Result<SharedCounts, InheritError> {
        crate::inherited_fd::check(descriptor, "counts")?;
        // SAFETY: it is open, and without FD_CLOEXEC nothing in this process owns it.
        let file = unsafe { own_descriptor(descriptor) };
        let error = |cause: io::Error| InheritError::new(format!("counts: {cause}"));
        platform::close_on_exec(&file).map_err(error)?;
        SharedCounts::map(file).map_err(error)
    }

    fn map(file: OwnedFd) -> io::Result<SharedCounts> {
        // A mapping beyond the end of the file succeeds and faults on access. The file cannot
        // shrink later: it is sealed.
        let length = std::fs::File::from(file.try_clone()?).metadata()?.len();
        if length < Self::BYTES as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let memory = MmapOptions::new().len(Self::BYTES).map_raw(&file)?;
        Ok(SharedCounts { memory, file })
    }

    /// Returns the descriptor for children to inherit.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns a counter; 0 if the index is out of range.
    pub fn get(&self, index: usize) -> u32 {
        self.counter(index).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub fn set(&self, index: usize, value: u32) {
        if let Some(count) = self.counter(index) {
            count.store(value, Ordering::Relaxed);
        }
    }

    fn counter(&self, index: usize) -> Option<&AtomicU32> {
        let first = self.memory.as_ptr().cast::<AtomicU32>();
        // SAFETY: the mapping lives as long as `self`, has `LEN` counters and the alignment of a
        // page; every process accesses them by atomic loads and stores only.
        (index < Self::LEN).then(|| unsafe { &*first.add(index) })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    #[test]
    fn a_value_written_by_one_process_is_read_by_the_other() {
        let ours = SharedCounts::new(7).unwrap();
        let number = ours.descriptor().try_clone_to_owned().unwrap().into_raw_fd();
        assert!(SharedCounts::inherited(number).is_err(), "it is closed on exec");
        // SAFETY: it was just created and stays open until it is taken below.
        let inheritable = unsafe { BorrowedFd::borrow_raw(number) };
        rustix::io::fcntl_setfd(inheritable, rustix::io::FdFlags::empty()).unwrap();
        let theirs = SharedCounts::inherited(number).unwrap();
        assert_eq!((theirs.get(0), theirs.get(SharedCounts::LEN - 1)), (7, 7));
        ours.set(3, 9);
        theirs.set(4, 8);
        assert_eq!((theirs.get(3), ours.get(4)), (9, 8));
        theirs.set(SharedCounts::LEN, 1);
        assert_eq!(theirs.get(SharedCounts::LEN), 0);
        drop(ours);
        assert_eq!(theirs.get(3), 9);
        let file = std::fs::File::open("Cargo.toml").unwrap();
        assert!(SharedCounts::map(file.into()).is_err(), "too short");
    }
}
