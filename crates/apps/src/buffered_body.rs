//! Buffers request bodies for applications on threads, so that no thread waits for a slow client.
//!
//! A body is held in memory, and beyond a bound in an anonymous file. Promises to hold no more than
//! that in memory, however long the body is; its receiver limits its length.

use std::fs::File;
use std::future::poll_fn;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use message::{BodyStream, Fault, Frame};
use net::{FileRange, blocking};
use offload::Incoming;

use crate::limits::{WHOLE_MEMORY_BYTES, WHOLE_WRITTEN_BYTES};

/// Pending until the body is complete.
pub(crate) async fn buffer(body: &mut Incoming) -> Result<(), Fault> {
    if let Some(frame) = collect(body).await? {
        body.put_back(frame);
    }
    Ok(())
}

/// Collects a stream into one frame; none if it is empty. Trailers are dropped: the receiver of a
/// buffered body cannot take them.
async fn collect(stream: &mut dyn BodyStream) -> Result<Option<Frame>, Fault> {
    let mut memory = Vec::new();
    let mut spool: Option<Spool> = None;
    while let Some(frame) = poll_fn(|cx| stream.poll_frame(cx)).await {
        let data = match frame? {
            Frame::Data(data) => data,
            Frame::Trailers(_) => continue,
            // It is already buffered.
            file @ Frame::File(_) if memory.is_empty() && spool.is_none() => return Ok(Some(file)),
            Frame::File(_) => return Err(Fault::internal("a part of a body is in a file")),
        };
        if memory.is_empty() && spool.is_none() && stream.length() == Some(0) {
            return Ok(Some(Frame::Data(data)));
        }
        memory.extend_from_slice(&data);
        let most = if spool.is_some() { WHOLE_WRITTEN_BYTES } else { WHOLE_MEMORY_BYTES };
        if memory.len() > most {
            let begun = match spool.take() {
                Some(begun) => begun,
                None => Spool::begin().await?,
            };
            let (begun, emptied) = begun.write(memory).await?;
            (spool, memory) = (Some(begun), emptied);
        }
    }
    let Some(spool) = spool else {
        return Ok((!memory.is_empty()).then(|| Frame::Data(memory.into())));
    };
    let (Spool { file, length }, _) = spool.write(memory).await?;
    Ok(Some(Frame::File(FileRange { file, offset: 0, length })))
}

/// The file of a long body.
struct Spool {
    file: Arc<File>,
    length: u64,
}

impl Spool {
    async fn begin() -> Result<Spool, Fault> {
        let opened = blocking(|| net::anonymous_file(&std::env::temp_dir())).await;
        let file = opened.and_then(|opened| opened).map_err(failed)?;
        Ok(Spool { file: Arc::new(file), length: 0 })
    }

    /// Appends bytes; returns itself and their buffer.
    async fn write(mut self, mut bytes: Vec<u8>) -> Result<(Spool, Vec<u8>), Fault> {
        let written = blocking(move || {
            self.file.write_all_at(&bytes, self.length)?;
            self.length += bytes.len() as u64;
            bytes.clear();
            Ok((self, bytes))
        });
        written.await.and_then(|written| written).map_err(failed)
    }
}

fn failed(error: std::io::Error) -> Fault {
    Fault::internal(format!("a request body cannot be written to a temporary file: {error}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use bytes::Bytes;
    use message::Body;

    use super::*;

    async fn collected(count: usize, length: usize) -> Option<Frame> {
        let (mut writer, pieces) = message::shared_body(u64::MAX, None);
        for number in 0..count {
            let piece = vec![b'a' + (number % 26) as u8; length];
            assert!(writer.push(Bytes::from(piece)).is_ok());
        }
        writer.finish(None);
        let Body::Stream(mut stream) = pieces.body() else { panic!("a stream was expected") };
        collect(&mut *stream).await.unwrap()
    }

    #[test]
    fn a_short_body_is_in_memory() {
        net::worker::block_on_local(async {
            let short = collected(3, 100).await;
            assert!(matches!(short, Some(Frame::Data(data)) if data.len() == 300));
            assert!(collected(0, 0).await.is_none());
        });
    }

    #[test]
    fn a_long_body_is_in_a_file_in_order() {
        net::worker::block_on_local(async {
            let (count, length) = (50, WHOLE_MEMORY_BYTES / 10);
            let Some(Frame::File(range)) = collected(count, length).await else {
                panic!("a file was expected");
            };
            assert_eq!(range.length, (count * length) as u64);
            let mut bytes = vec![0; count * length];
            range.file.read_exact_at(&mut bytes, 0).unwrap();
            let pieces = bytes.chunks(length).enumerate();
            for (number, piece) in pieces {
                assert!(piece.iter().all(|byte| *byte == b'a' + (number % 26) as u8));
            }
        });
    }

    #[test]
    fn a_failed_body_is_an_error() {
        net::worker::block_on_local(async {
            let (mut writer, pieces) = message::shared_body(1 << 20, None);
            assert!(writer.push(Bytes::from_static(b"half")).is_ok());
            drop(writer);
            let Body::Stream(mut stream) = pieces.body() else { panic!("a stream was expected") };
            assert!(collect(&mut *stream).await.is_err());
        });
    }
}
