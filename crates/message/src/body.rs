//! Content of a message (extension point 4): nothing, bytes, a part of a file, or a stream.
//!
//! A stream gives frames when it is polled and nothing before: that is the back-pressure, end to
//! end. It ends with `None`, or with trailers and then `None`, or with a [`Fault`].

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use net::FileRange;

use crate::{Fault, FileReader, Headers};

/// Content of a request or response.
#[derive(Default)]
pub enum Body {
    #[default]
    Empty,
    Bytes(Bytes),
    /// Bytes that the worker keeps and sends repeatedly, such as those of its configuration: their
    /// reference count needs no atomic instruction.
    Kept(Rc<[u8]>),
    File(FileRange),
    Stream(Box<dyn BodyStream>),
}

/// A piece of a streamed body.
#[derive(Debug)]
pub enum Frame {
    Data(Bytes),
    File(FileRange),
    /// The trailer section (RFC 9110 6.5); nothing follows it.
    Trailers(Headers),
}

/// Content that arrives over time.
pub trait BodyStream {
    /// The next frame, `None` at the end. The first poll of a request's body sends 100 Continue if
    /// the client waits for it.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>>;

    /// Bytes still to come, where that is known.
    fn length(&self) -> Option<u64>;
}

impl Body {
    /// A body up to this size is copied behind its head: one piece costs less than two, which are
    /// joined before they are sent if they are this short (`net::Outgoing`).
    pub const COPIED_BYTES_MAX: usize = 3 * 1024;

    pub fn stream(stream: impl BodyStream + 'static) -> Body {
        Body::Stream(Box::new(stream))
    }

    /// Returns the same content without references to the worker's data.
    pub fn owned(self) -> Body {
        match self {
            Body::Kept(bytes) => Body::from(Bytes::copy_from_slice(&bytes)),
            other => other,
        }
    }

    /// Length of the content, `None` where only the end will tell.
    pub fn length(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::Kept(bytes) => Some(bytes.len() as u64),
            Body::File(range) => Some(range.length),
            Body::Stream(stream) => stream.length(),
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Body::Empty => true,
            Body::Bytes(bytes) => bytes.is_empty(),
            Body::Kept(bytes) => bytes.is_empty(),
            Body::File(range) => range.length == 0,
            Body::Stream(_) => false,
        }
    }

    /// The next frame whatever the kind of body; `None` at the end.
    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        match self {
            Body::Stream(stream) => stream.poll_frame(cx),
            _ => Poll::Ready(match std::mem::take(self).owned() {
                Body::Bytes(bytes) if !bytes.is_empty() => Some(Ok(Frame::Data(bytes))),
                Body::File(range) if range.length > 0 => Some(Ok(Frame::File(range))),
                _ => None,
            }),
        }
    }

    pub async fn frame(&mut self) -> Option<Result<Frame, Fault>> {
        poll_fn(|cx| self.poll_frame(cx)).await
    }

    /// Reads everything into memory, at most `limit` bytes; more is the client's fault (413).
    pub async fn collect(&mut self, limit: u64) -> Result<Bytes, Fault> {
        let mut whole: Option<BytesMut> = None;
        let mut only = Bytes::new();
        while let Some(frame) = self.frame().await {
            let data = match frame? {
                Frame::Data(data) => data,
                Frame::File(range) => FileReader::new(range).collect(limit).await?,
                Frame::Trailers(_) => continue,
            };
            let so_far = whole.as_ref().map_or(only.len(), BytesMut::len);
            if so_far as u64 + data.len() as u64 > limit {
                return Err(Fault::body_too_large());
            }
            if so_far == 0 {
                only = data;
            } else {
                whole.get_or_insert_with(|| BytesMut::from(&only[..])).extend_from_slice(&data);
            }
        }
        Ok(whole.map_or(only, BytesMut::freeze))
    }
}

/// A chunk that may be stored for long is copied below this size, because it may pin a whole block
/// of its worker (extension point 1).
const DETACHED_BYTES_MAX: usize = 16 * 1024;

/// Returns the bytes in memory that is worth keeping for them.
pub fn detach_small(data: Bytes) -> Bytes {
    if data.len() < DETACHED_BYTES_MAX { net::detach(&data).freeze() } else { data }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        if bytes.is_empty() { Body::Empty } else { Body::Bytes(bytes) }
    }
}

impl From<String> for Body {
    fn from(text: String) -> Body {
        Body::from(Bytes::from(text))
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Body {
        Body::from(Bytes::from_static(text.as_bytes()))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Body::Empty => f.write_str("Empty"),
            Body::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Body::Kept(bytes) => write!(f, "Kept({})", bytes.len()),
            Body::File(range) => write!(f, "File({})", range.length),
            Body::Stream(stream) => write!(f, "Stream({:?})", stream.length()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> Body {
        let (mut writer, pieces) = crate::shared_body(1 << 20, None);
        for piece in ["one", "two"] {
            assert!(writer.push(Bytes::from_static(piece.as_bytes())).is_ok());
        }
        writer.finish(Some(Headers::new()));
        pieces.body()
    }

    #[test]
    fn collecting_joins_frames_up_to_the_limit() {
        net::worker::block_on_local(async {
            assert_eq!(&pieces().collect(6).await.unwrap()[..], b"onetwo");
            assert_eq!(pieces().collect(5).await.unwrap_err().status, 413);
        });
    }

    #[test]
    fn collecting_reads_files_up_to_the_limit() {
        net::worker::block_on_local(async {
            let mut file = tempfile::tempfile().unwrap();
            let content: Vec<u8> = (0..200_000).map(|at| at as u8).collect();
            std::io::Write::write_all(&mut file, &content).unwrap();
            let file = std::sync::Arc::new(file);
            let body =
                |offset, length| Body::File(FileRange { file: file.clone(), offset, length });
            assert!(body(0, 200_000).collect(200_000).await.unwrap() == content);
            assert_eq!(&body(5, 3).collect(3).await.unwrap()[..], &content[5..8]);
            assert_eq!(body(5, 4).collect(3).await.unwrap_err().status, 413);
            assert_eq!(body(199_999, 2).collect(3).await.unwrap_err().status, 500);
        });
    }

    #[test]
    fn a_plain_body_is_one_frame() {
        net::worker::block_on_local(async {
            let mut body = Body::from("text");
            assert!(matches!(body.frame().await, Some(Ok(Frame::Data(data))) if data == "text"));
            assert!(body.frame().await.is_none());
        });
    }
}
