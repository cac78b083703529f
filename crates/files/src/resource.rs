//! What is known of one path: the file, its codings, their validators and fields, and the paths
//! that were examined to find them.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use coding::Coding;
use message::{Content, Headers, WINDOW_BYTES};
use net::FileRange;
use net::files::{OpenError, is_resident, is_same, metadata_beneath, warm};
use wire::Known;
use wire::date::format_http_date;

use crate::limits::SMALL_FILE_BYTES;
use crate::record::Files;

/// A path that leads to a file.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Without a content coding.
    pub(crate) plain: Variant,
    /// Its precompressed variants, the server's preferred first.
    pub(crate) coded: Vec<(Coding, Variant)>,
    pub(crate) probes: Arc<Probes>,
}

/// One content coding of a file.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) content: Content,
    /// With its quotes.
    pub(crate) etag: Box<str>,
    pub(crate) modified_secs: u64,
    /// The fields of a 200.
    pub(crate) fields: Headers,
}

/// Every path that was examined and what was there: while none has changed, the result is the same.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    seen: Vec<(PathBuf, Option<Metadata>)>,
    /// Files that are sent in one piece, and so must be in the page cache.
    warm: Vec<(Arc<File>, u64)>,
}

impl Probes {
    pub(crate) fn record_path(&mut self, path: &Path, about: Option<Metadata>) {
        self.seen.push((path.to_owned(), about));
    }

    /// True if nothing has changed. Waits for the disk.
    pub(crate) fn still_hold(&self, files: &Files) -> bool {
        let holds = |(path, before): &(PathBuf, Option<Metadata>)| match (
            metadata_beneath(&files.root, path, files.links()),
            before,
        ) {
            (Ok(now), Some(before)) => is_same(&now, before),
            (Err(OpenError::Missing), None) => true,
            _ => false,
        };
        let hold = self.seen.iter().all(holds);
        if hold {
            // The page cache may have dropped the files since.
            for (file, length) in &self.warm {
                let _ = make_resident(file, *length);
            }
        }
        hold
    }

    fn keep_warm(&mut self, content: &Content) -> io::Result<()> {
        if let Content::MemoryFile(range) = content {
            make_resident(&range.file, range.length)?;
            self.warm.push((range.file.clone(), range.length));
        }
        Ok(())
    }
}

fn make_resident(file: &File, length: u64) -> io::Result<()> {
    if is_resident(file, 0, length) { Ok(()) } else { warm(file, 0, length) }
}

impl Resource {
    pub(crate) fn new(
        name: &str,
        found: (File, Metadata),
        coded: Vec<(Coding, (File, Metadata))>,
        mut probes: Probes,
        files: &Files,
    ) -> io::Result<Resource> {
        let varies = !coded.is_empty();
        let mut variant = |(file, about): (File, Metadata), coding: Option<Coding>| {
            let mut variant = Variant::new(file, &about, coding)?;
            probes.keep_warm(&variant.content)?;
            variant.describe(&files.content_type(name), coding, varies, files);
            Ok::<_, io::Error>(variant)
        };
        let plain = variant(found, None)?;
        let coded =
            coded.into_iter().map(|(coding, found)| Ok((coding, variant(found, Some(coding))?)));
        let coded = coded.collect::<io::Result<_>>()?;
        Ok(Resource { plain, coded, probes: Arc::new(probes) })
    }

    fn variants(&self) -> impl Iterator<Item = &Variant> {
        std::iter::once(&self.plain).chain(self.coded.iter().map(|(_, variant)| variant))
    }

    /// Number of descriptors it holds.
    pub(crate) fn open_files(&self) -> usize {
        self.variants().filter(|variant| !matches!(variant.content, Content::Memory(_))).count()
    }

    /// Bytes of content it holds in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let bytes = |variant: &Variant| match &variant.content {
            Content::Memory(bytes) => bytes.len(),
            Content::File(_) | Content::MemoryFile(_) => 0,
        };
        self.variants().map(bytes).sum()
    }
}

impl Variant {
    fn new(file: File, about: &Metadata, coding: Option<Coding>) -> io::Result<Variant> {
        let content = match about.len() {
            length @ 0..=SMALL_FILE_BYTES => Content::Memory(read_up_to(&file, length)?),
            length => {
                let whole = FileRange { file: Arc::new(file), offset: 0, length };
                // One window is kept in memory while it is cached, and sent in one piece.
                let kept = length <= WINDOW_BYTES;
                if kept { Content::MemoryFile(whole) } else { Content::File(whole) }
            }
        };
        // If the file is being written, the number of bytes read counts.
        let length = content.len();
        let modified_secs = u64::try_from(about.mtime()).unwrap_or(0);
        let mtime_ns = i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
        // A content coding is another representation, so its tag differs (RFC 9110 8.8.3.3).
        let suffix = coding.map(|coding| format!("-{}", coding.token())).unwrap_or_default();
        let etag = format!("\"{mtime_ns:x}-{length:x}{suffix}\"").into();
        Ok(Variant { content, etag, modified_secs, fields: Headers::new() })
    }

    fn describe(
        &mut self,
        content_type: &str,
        coding: Option<Coding>,
        varies: bool,
        files: &Files,
    ) {
        let fields = &mut self.fields;
        fields.append(Known::ContentType, content_type);
        if let Some(coding) = coding {
            fields.append(Known::ContentEncoding, coding.token());
        }
        fields.append(Known::Etag, &*self.etag);
        fields.append(Known::LastModified, format_http_date(self.modified_secs));
        fields.append(Known::AcceptRanges, "bytes");
        if varies {
            fields.append(Known::Vary, "Accept-Encoding");
        }
        if let Some(value) = &files.cache_control {
            fields.append(Known::CacheControl, value);
        }
    }
}

fn read_up_to(file: &File, length: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; length as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(Bytes::from(bytes))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A resource in memory.
    pub(crate) fn memory(bytes: &[u8]) -> Resource {
        let plain = Variant {
            content: Content::Memory(Bytes::copy_from_slice(bytes)),
            etag: "\"1\"".into(),
            modified_secs: 1,
            fields: Headers::new(),
        };
        Resource { plain, coded: Vec::new(), probes: Arc::default() }
    }
}
