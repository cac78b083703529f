//! Bodies as a whole, for applications on threads: a thread that waited for a slow client could do
//! nothing else.
//!
//! Owns where a body lies meanwhile: in memory, and beyond a bound in a file that has no name.
//! Promises to hold no more of it in memory than that, however long it is; how long it may be is
//! for whoever receives it to bound.

use std::fs::File;
use std::future::poll_fn;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use exchange::offload::Incoming;
use exchange::{BodyStream, Fault, Frame};
use net::{FileRange, blocking};

use crate::limits::{WHOLE_MEMORY_BYTES, WHOLE_WRITTEN_BYTES};

/// Waits until all of the body is here.
pub(crate) async fn gather(body: &mut Incoming) -> Result<(), Fault> {
    if let Some(frame) = whole(body).await? {
        body.put_back(frame);
    }
    Ok(())
}

/// All that a stream gives as one piece; none where it gives nothing. Trailers are dropped: who
/// wants the body as a whole has no place for them.
async fn whole(stream: &mut dyn BodyStream) -> Result<Option<Frame>, Fault> {
    let mut memory = Vec::new();
    let mut spool: Option<Spool> = None;
    while let Some(frame) = poll_fn(|cx| stream.poll_frame(cx)).await {
        let data = match frame? {
            Frame::Data(data) => data,
            Frame::Trailers(_) => continue,
            // It was gathered before.
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

/// The file.
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

    /// Adds bytes; gives itself and their memory back.
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
    Fault::internal(format!("a body cannot be kept in a file: {error}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use bytes::Bytes;
    use exchange::Body;

    use super::*;

    async fn gathered(count: usize, length: usize) -> Option<Frame> {
        let (mut writer, pieces) = exchange::shared_body(u64::MAX, None);
        for number in 0..count {
            let piece = vec![b'a' + (number % 26) as u8; length];
            assert!(writer.push(Bytes::from(piece)).is_ok());
        }
        writer.finish(None);
        let Body::Stream(mut stream) = pieces.body() else { panic!("a stream was expected") };
        whole(&mut *stream).await.unwrap()
    }

    #[test]
    fn what_is_short_is_kept_in_memory() {
        net::worker::block_on_local(async {
            let short = gathered(3, 100).await;
            assert!(matches!(short, Some(Frame::Data(data)) if data.len() == 300));
            assert!(gathered(0, 0).await.is_none());
        });
    }

    #[test]
    fn what_is_long_lies_in_a_file_in_its_order() {
        net::worker::block_on_local(async {
            let (count, length) = (50, WHOLE_MEMORY_BYTES / 10);
            let Some(Frame::File(range)) = gathered(count, length).await else {
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
    fn a_body_that_fails_is_none() {
        net::worker::block_on_local(async {
            let (mut writer, pieces) = exchange::shared_body(1 << 20, None);
            assert!(writer.push(Bytes::from_static(b"half")).is_ok());
            drop(writer);
            let Body::Stream(mut stream) = pieces.body() else { panic!("a stream was expected") };
            assert!(whole(&mut *stream).await.is_err());
        });
    }
}
