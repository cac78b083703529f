//! Words of a file that several processes share as memory.
//!
//! Each word is read and written atomically. What a process wrote stays in the file when the
//! process is killed; the kernel writes it to the disk, so that only a crash of the kernel or a
//! loss of power can lose the latest changes. Nothing may truncate the file while it is open: an
//! access beyond its end kills the process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// Permissions of a new file.
const MODE: u32 = 0o600;

/// An array of words in a file.
#[derive(Debug)]
pub struct FileWords {
    memory: MmapRaw,
    words: usize,
}

impl FileWords {
    /// Opens a file of exactly so many words. One that does not exist or is empty is created with
    /// zeros, for which the disk has to have space. May block on the disk.
    pub fn open(path: &Path, words: usize) -> io::Result<FileWords> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(MODE);
        let file = file.open(path)?;
        let bytes = (words * size_of::<u64>()) as u64;
        match file.metadata()?.len() {
            0 => allocate(&file, bytes)?,
            length if length == bytes => {}
            length => {
                let why = format!("the file has {length} bytes, not {bytes}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
        let memory = MmapOptions::new().len(words * size_of::<u64>()).map_raw(&file)?;
        Ok(FileWords { memory, words })
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        let first = self.memory.as_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping lives as long as `self`, has `words` words and the alignment of a
        // page; every process accesses them by atomic operations only.
        unsafe { std::slice::from_raw_parts(first, self.words) }
    }
}

/// Reserves space, so that writing to the memory cannot fail because the disk is full.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        // The file system has no such operation.
        Err(Errno::OPNOTSUPP) => file.set_len(bytes),
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::FileWords;

    #[test]
    fn words_are_shared_and_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("words");
        let (one, other) = (FileWords::open(&path, 600), FileWords::open(&path, 600));
        let (one, other) = (one.unwrap(), other.unwrap());
        one.words()[599].store(7, Ordering::Relaxed);
        assert_eq!(other.words()[599].fetch_add(1, Ordering::Relaxed), 7);
        drop((one, other));
        let again = FileWords::open(&path, 600).unwrap();
        assert_eq!(again.words()[599].load(Ordering::Relaxed), 8);
        assert_eq!((again.words().len(), again.words()[0].load(Ordering::Relaxed)), (600, 0));
        let why = FileWords::open(&path, 601).unwrap_err().to_string();
        assert_eq!(why, "the file has 4800 bytes, not 4808");
        assert!(FileWords::open("/no/such/directory".as_ref(), 3).is_err());
    }
}
