//! Numbers that a parent and its child processes share: a place for each process, in one page of
//! memory.
//!
//! Promises that to read and to write one is a load and a store, without a system call or a lock,
//! and that the memory stays as long as anybody has it, whatever becomes of the others.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::inherit::InheritError;
use crate::platform;
use crate::stream::own_descriptor;

/// The places.
#[derive(Debug)]
pub struct SharedCounts {
    memory: NonNull<AtomicU32>,
    file: OwnedFd,
}

// SAFETY: the memory holds atomics only, and is mapped as long as this lives.
unsafe impl Send for SharedCounts {}
// SAFETY: as above.
unsafe impl Sync for SharedCounts {}

impl SharedCounts {
    /// How many there are.
    pub const PLACES: usize = 1024;
    const BYTES: usize = Self::PLACES * size_of::<AtomicU32>();

    /// Memory of our own, for children to inherit; all of it is `value`.
    pub fn new(value: u32) -> io::Result<SharedCounts> {
        let counts = SharedCounts::map(platform::shared_memory(Self::BYTES)?)?;
        (0..Self::PLACES).for_each(|place| counts.set(place, value));
        Ok(counts)
    }

    /// That of a parent, which has handed it down under this number.
    pub fn inherited(descriptor: RawFd) -> Result<SharedCounts, InheritError> {
        crate::inherited_fd::check(descriptor, "counts")?;
        // SAFETY: it is open, and as it is not closed on exec nobody in this process owns it.
        let file = unsafe { own_descriptor(descriptor) };
        let refuse = |error: io::Error| InheritError::new(format!("counts: {error}"));
        platform::keep_to_us(&file).map_err(refuse)?;
        SharedCounts::map(file).map_err(refuse)
    }

    fn map(file: OwnedFd) -> io::Result<SharedCounts> {
        // Beyond the end of the file a mapping is there and cannot be touched.
        let length = std::fs::File::from(file.try_clone()?).metadata()?.len();
        if length < Self::BYTES as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: a new mapping, nowhere in particular, of a file that is long enough and that
        // nobody can shorten (it is sealed).
        let memory = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let nowhere = std::ptr::null_mut();
            libc::mmap(nowhere, Self::BYTES, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedCounts { memory, file })
    }

    /// What is to be handed down.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The number in a place; 0 where there is none.
    pub fn get(&self, place: usize) -> u32 {
        self.place(place).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub fn set(&self, place: usize, value: u32) {
        if let Some(count) = self.place(place) {
            count.store(value, Ordering::Relaxed);
        }
    }

    fn place(&self, place: usize) -> Option<&AtomicU32> {
        // SAFETY: the mapping has so many of them, aligned as pages are; other processes reach them
        // by atomic loads and stores only, as we do.
        (place < Self::PLACES).then(|| unsafe { self.memory.add(place).as_ref() })
    }
}

impl Drop for SharedCounts {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nobody borrows from it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), Self::BYTES) };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    #[test]
    fn what_one_writes_the_other_reads() {
        let ours = SharedCounts::new(7).unwrap();
        let number = ours.descriptor().try_clone_to_owned().unwrap().into_raw_fd();
        assert!(SharedCounts::inherited(number).is_err(), "it was not handed down");
        // SAFETY: takes numbers.
        assert_eq!(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }, 0);
        let theirs = SharedCounts::inherited(number).unwrap();
        assert_eq!((theirs.get(0), theirs.get(SharedCounts::PLACES - 1)), (7, 7));
        ours.set(3, 9);
        theirs.set(4, 8);
        assert_eq!((theirs.get(3), ours.get(4)), (9, 8));
        theirs.set(SharedCounts::PLACES, 1);
        assert_eq!(theirs.get(SharedCounts::PLACES), 0);
        drop(ours);
        assert_eq!(theirs.get(3), 9);
        let file = std::fs::File::open("Cargo.toml").unwrap();
        assert!(SharedCounts::map(file.into()).is_err(), "too short");
    }
}
