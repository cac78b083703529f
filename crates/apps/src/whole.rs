//! Bodies as a whole, for applications on threads: a thread that waited for a slow client could do
//! nothing else.
//!
//! Owns where a body lies meanwhile: in memory, and beyond a bound in a file that has no name.
//! Promises to hold no more of it in memory than that, however long it is; how long it may be is
//! for whoever receives it to bound.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use exchange::{Body, Fault, Frame};
use net::{FileRange, blocking};

use crate::limits::{WHOLE_MEMORY_BYTES, WHOLE_WRITTEN_BYTES};

/// Waits until all of the body is here. Trailers are dropped: who wants the body as a whole has no
/// place for them.
pub(crate) async fn gather(body: &mut Body) -> Result<(), Fault> {
    if !matches!(body, Body::Stream(_)) {
        return Ok(());
    }
    let mut memory = Vec::new();
    let mut spool: Option<Spool> = None;
    while let Some(frame) = body.frame().await {
        let data = match frame? {
            Frame::Data(data) => data,
            Frame::Trailers(_) => continue,
            Frame::File(_) => return Err(Fault::internal("a part of a body is in a file already")),
        };
        if memory.is_empty() && spool.is_none() && body.length() == Some(0) {
            *body = Body::from(data);
            return Ok(());
        }
        memory.extend_from_slice(&data);
        let most = if spool.is_some() { WHOLE_WRITTEN_BYTES } else { WHOLE_MEMORY_BYTES };
        if memory.len() > most {
            let begun = match spool.take() {
                Some(begun) => begun,
                None => Spool::begin().await?,
            };
            (spool, memory) = begun.write(memory).await?;
        }
    }
    *body = match spool {
        None => Body::from(Bytes::from(memory)),
        Some(spool) => match spool.write(memory).await?.0 {
            Some(Spool { file, length }) => Body::File(FileRange { file, offset: 0, length }),
            None => Body::Empty,
        },
    };
    Ok(())
}

/// The file.
struct Spool {
    file: Arc<File>,
    length: u64,
}

impl Spool {
    async fn begin() -> Result<Spool, Fault> {
        let opened = blocking(|| net::unlinked_file(&std::env::temp_dir())).await;
        let file = opened.and_then(|opened| opened).map_err(failed)?;
        Ok(Spool { file: Arc::new(file), length: 0 })
    }

    /// Adds bytes; gives itself and their memory back.
    async fn write(mut self, mut bytes: Vec<u8>) -> Result<(Option<Spool>, Vec<u8>), Fault> {
        let written = blocking(move || {
            self.file.write_all_at(&bytes, self.length)?;
            self.length += bytes.len() as u64;
            bytes.clear();
            Ok((Some(self), bytes))
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

    use super::*;

    fn pieces(count: usize, length: usize) -> Body {
        let (mut writer, pieces) = exchange::growing(u64::MAX, None);
        for number in 0..count {
            let piece = vec![b'a' + (number % 26) as u8; length];
            assert!(writer.push(Bytes::from(piece)).is_ok());
        }
        writer.finish(None);
        pieces.body()
    }

    #[test]
    fn what_is_short_is_kept_in_memory() {
        net::worker::block_on_local(async {
            let mut body = pieces(3, 100);
            gather(&mut body).await.unwrap();
            assert!(matches!(&body, Body::Bytes(bytes) if bytes.len() == 300));
            let mut none = pieces(0, 0);
            gather(&mut none).await.unwrap();
            assert!(none.is_empty());
        });
    }

    #[test]
    fn what_is_long_lies_in_a_file_in_its_order() {
        net::worker::block_on_local(async {
            let (count, length) = (50, WHOLE_MEMORY_BYTES / 10);
            let mut body = pieces(count, length);
            gather(&mut body).await.unwrap();
            let Body::File(range) = &body else { panic!("a file was expected: {body:?}") };
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
            let (mut writer, pieces) = exchange::growing(1 << 20, None);
            assert!(writer.push(Bytes::from_static(b"half")).is_ok());
            drop(writer);
            assert!(gather(&mut pieces.body()).await.is_err());
        });
    }
}
