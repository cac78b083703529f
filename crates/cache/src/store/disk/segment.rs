//! Segments: the files of the tier, which are appended to and deleted whole.
//!
//! No byte of a segment is ever overwritten, so that a response can be sent from a deleted one. A
//! walk ends at the first record that is cut off or damaged, because the next one cannot be
//! located.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::record::{HEADER_BYTES, RecordHeader};

/// The extension of file names.
const EXTENSION: &str = "segment";
/// Bytes read at once of a record of unknown length.
const FIRST_BYTES: usize = 4096;

pub(super) fn path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{number:08x}.{EXTENSION}"))
}

/// The numbers of all segments, the oldest first.
pub(super) fn list(directory: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let number = stem.and_then(|stem| u32::from_str_radix(stem, 16).ok());
        if let Some(number) = number
            && self::path(directory, number) == path
        {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Only the owner may read a segment: its content may be private.
pub(super) fn create(directory: &Path, number: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).open(path(directory, number))
}

pub(super) fn open(directory: &Path, number: u32) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path(directory, number))
}

/// Reads header and description of the record at `offset`; `None` if it is not complete. `length`
/// is the file's.
pub(super) fn read_head(
    file: &File,
    offset: u64,
    length: u64,
    room: &mut Vec<u8>,
) -> io::Result<Option<(RecordHeader, usize)>> {
    let left = length.saturating_sub(offset);
    if left < HEADER_BYTES as u64 {
        return Ok(None);
    }
    room.resize(FIRST_BYTES.min(usize::try_from(left).unwrap_or(FIRST_BYTES)), 0);
    file.read_exact_at(room, offset)?;
    let Some(Ok(bytes)) = room.get(..HEADER_BYTES).map(<&[u8; HEADER_BYTES]>::try_from) else {
        return Ok(None);
    };
    let Some(header) = RecordHeader::parse(bytes) else { return Ok(None) };
    if header.record_len() > left {
        return Ok(None);
    }
    let (first, whole) = (room.len(), HEADER_BYTES + header.head_len as usize);
    room.resize(whole, 0);
    if whole > first {
        file.read_exact_at(&mut room[first..], offset + first as u64)?;
    }
    Ok(header.fits(&room[HEADER_BYTES..]).then_some((header, HEADER_BYTES)))
}

/// Visits the records of a segment in order while `visit` returns true; returns the end of the last
/// good one.
pub(super) fn walk(
    file: &File,
    mut visit: impl FnMut(u32, &RecordHeader, &[u8]) -> bool,
) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut room = Vec::new();
    let mut offset = 0;
    while let Ok(at) = u32::try_from(offset)
        && let Some((header, head_at)) = read_head(file, offset, length, &mut room)?
    {
        if !visit(at, &header, &room[head_at..]) {
            break;
        }
        offset += header.record_len();
    }
    Ok(offset)
}
