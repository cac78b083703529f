//! The body of a request, stored so that it can be sent again.
//!
//! A complete body costs nothing to store. A stream is stored while it is sent, up to a limit;
//! beyond it the request cannot be retried. Stored data is copied out of its receive buffer. Once a
//! response has begun nothing more is stored.
//!
//! [`Replay::begin`] waits for the client before a connection is acquired: for the whole of a short
//! body, for the first piece of any other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use message::{Body, BodyStream, Fault, Frame, Headers};

use crate::limits::{COPIED_BYTES, GATHERED_BYTES, REPLAY_BYTES, REPLAY_PIECES};

pub(crate) enum Replay {
    Empty,
    Bytes(Bytes),
    Stream(Rc<RefCell<StoredBody>>),
    /// A body that can be sent once.
    Once(Option<Body>),
}

impl Replay {
    /// `again` is true if retries are enabled.
    pub(crate) fn new(body: Body, again: bool) -> Replay {
        match body {
            Body::Empty => Replay::Empty,
            Body::Stream(source) => Replay::Stream(Rc::new(RefCell::new(StoredBody {
                length: source.length(),
                source: Some(source),
                ahead: VecDeque::new(),
                kept: Vec::new(),
                kept_bytes: 0,
                once: !again,
                lost: false,
                trailers: None,
            }))),
            body if !again => Replay::Once(Some(body)),
            Body::Bytes(bytes) => Replay::Bytes(bytes),
            Body::Kept(bytes) => Replay::Bytes(Bytes::copy_from_slice(&bytes)),
            file @ Body::File(_) => Replay::Once(Some(file)),
        }
    }

    /// True if the body is still to be received from the client.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self, Replay::Stream(_))
    }

    /// Waits until there is something to send.
    pub(crate) async fn begin(&mut self) -> Result<(), Fault> {
        let Replay::Stream(tape) = self else { return Ok(()) };
        let mut gathered = BytesMut::new();
        let whole = poll_fn(|cx| tape.borrow_mut().poll_begin(cx, &mut gathered)).await?;
        if let Some(whole) = whole {
            *self = Replay::Bytes(whole);
        }
        Ok(())
    }

    /// True if the body can be sent (again).
    pub(crate) fn is_playable(&self) -> bool {
        match self {
            Replay::Empty | Replay::Bytes(_) => true,
            Replay::Once(body) => body.is_some(),
            Replay::Stream(tape) => !tape.borrow().lost,
        }
    }

    /// The body from its beginning.
    pub(crate) fn play(&mut self) -> Body {
        match self {
            Replay::Empty => Body::Empty,
            Replay::Bytes(bytes) => Body::Bytes(bytes.clone()),
            Replay::Once(body) => body.take().unwrap_or_default(),
            Replay::Stream(tape) => {
                let once = tape.borrow().once;
                tape.borrow_mut().lost |= once;
                Body::stream(StoredBodyReader { tape: tape.clone(), at: 0, played: 0 })
            }
        }
    }

    /// Ends the storing: there will be no retry. Stored data may still be in use.
    pub(crate) fn forget(&self) {
        if let Replay::Stream(tape) = self {
            tape.borrow_mut().lost = true;
        }
    }
}

/// A streamed body and the part that has been sent.
pub(crate) struct StoredBody {
    /// Gone once it has ended.
    source: Option<Box<dyn BodyStream>>,
    length: Option<u64>,
    /// Received and not sent yet.
    ahead: VecDeque<Frame>,
    kept: Vec<Bytes>,
    kept_bytes: usize,
    /// There will be no retry.
    once: bool,
    /// The beginning is no longer stored.
    lost: bool,
    trailers: Option<Headers>,
}

impl StoredBody {
    fn lose(&mut self) {
        self.lost = true;
        self.kept = Vec::new();
    }

    /// Gathers a short body and stores it once it is complete; of any other it reads the first
    /// piece.
    fn poll_begin(
        &mut self,
        cx: &mut Context<'_>,
        gathered: &mut BytesMut,
    ) -> Poll<Result<Option<Bytes>, Fault>> {
        let short = self.length.filter(|length| *length <= GATHERED_BYTES);
        while let (Some(source), true) = (&mut self.source, self.ahead.is_empty()) {
            let frame = ready!(source.poll_frame(cx)).transpose()?;
            match (frame, short) {
                (Some(Frame::Data(data)), Some(length)) => {
                    if gathered.is_empty() && data.len() as u64 == length {
                        return Poll::Ready(Ok(Some(data)));
                    }
                    gathered.extend_from_slice(&data);
                    if gathered.len() as u64 >= length {
                        return Poll::Ready(Ok(Some(std::mem::take(gathered).freeze())));
                    }
                }
                (Some(frame), _) => {
                    if !gathered.is_empty() {
                        let data = std::mem::take(gathered).freeze();
                        self.ahead.push_back(Frame::Data(data));
                    }
                    self.ahead.push_back(frame);
                }
                // HTTP/2 may announce no content and end the stream later (RFC 9113 8.1.1).
                (None, Some(length)) if gathered.len() as u64 == length => {
                    return Poll::Ready(Ok(Some(std::mem::take(gathered).freeze())));
                }
                (None, Some(_)) => {
                    let detail = "a request body was shorter than announced";
                    return Poll::Ready(Err(Fault::internal(detail)));
                }
                (None, None) => self.source = None,
            }
        }
        Poll::Ready(Ok(None))
    }

    fn keep(&mut self, data: &Bytes) {
        if self.lost {
            return;
        }
        self.kept_bytes += data.len();
        if self.kept_bytes > REPLAY_BYTES || self.kept.len() == REPLAY_PIECES {
            self.lose();
        } else if data.len() >= COPIED_BYTES || self.length == Some(data.len() as u64) {
            self.kept.push(data.clone());
        } else {
            // The piece may be the only user of a receive buffer of its worker, and the rest of the
            // body may take long.
            self.kept.push(net::detach(data).freeze());
        }
    }
}

/// Sends a stored body once.
struct StoredBodyReader {
    tape: Rc<RefCell<StoredBody>>,
    at: usize,
    played: u64,
}

impl BodyStream for StoredBodyReader {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let tape = &mut *self.tape.borrow_mut();
        if let Some(data) = tape.kept.get(self.at) {
            self.at += 1;
            self.played += data.len() as u64;
            return Poll::Ready(Some(Ok(Frame::Data(data.clone()))));
        }
        let frame = match (tape.ahead.pop_front(), &mut tape.source) {
            (Some(frame), _) => Ok(Some(frame)),
            (None, Some(source)) => ready!(source.poll_frame(cx)).transpose(),
            (None, None) => {
                let trailers = tape.trailers.clone().filter(|_| self.at <= tape.kept.len());
                self.at = usize::MAX;
                return Poll::Ready(trailers.map(|trailers| Ok(Frame::Trailers(trailers))));
            }
        };
        match &frame {
            Ok(Some(Frame::Data(data))) => {
                tape.keep(data);
                self.at = tape.kept.len();
                self.played += data.len() as u64;
            }
            Ok(Some(Frame::File(_))) | Err(_) => tape.lose(),
            Ok(Some(Frame::Trailers(trailers))) => {
                tape.trailers = Some(trailers.clone());
                tape.source = None;
                self.at = usize::MAX;
            }
            Ok(None) => {
                tape.source = None;
                self.at = usize::MAX;
            }
        }
        Poll::Ready(frame.transpose())
    }

    fn length(&self) -> Option<u64> {
        Some(self.tape.borrow().length?.saturating_sub(self.played))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(pieces: &[&'static [u8]], trailers: Option<Headers>) -> Body {
        let (mut writer, body) = message::shared_body(u64::MAX, None);
        for piece in pieces {
            assert!(writer.push(Bytes::from_static(piece)).is_ok());
        }
        writer.finish(trailers);
        body.body()
    }

    #[test]
    fn a_stream_is_played_again_from_its_beginning() {
        net::worker::block_on_local(async {
            let mut replay = Replay::new(pieces(&[b"one ", b"two ", b"three"], None), true);
            let mut first = replay.play();
            assert!(matches!(first.frame().await, Some(Ok(Frame::Data(data))) if data == "one "));
            drop(first);
            assert!(replay.is_playable());
            assert_eq!(&replay.play().collect(100).await.unwrap()[..], b"one two three");
            assert_eq!(&replay.play().collect(100).await.unwrap()[..], b"one two three");
        });
    }

    #[test]
    fn trailers_are_played_once_each_time() {
        net::worker::block_on_local(async {
            let mut trailers = Headers::new();
            trailers.append("x-sum", "1");
            let mut replay = Replay::new(pieces(&[b"a"], Some(trailers)), true);
            for _ in 0..2 {
                let mut body = replay.play();
                assert!(matches!(body.frame().await, Some(Ok(Frame::Data(_)))));
                assert!(matches!(body.frame().await, Some(Ok(Frame::Trailers(_)))));
                assert!(body.frame().await.is_none());
            }
        });
    }

    #[test]
    fn a_long_stream_cannot_be_played_again() {
        static LONG: [u8; REPLAY_BYTES + 1] = [b'x'; REPLAY_BYTES + 1];
        net::worker::block_on_local(async {
            let mut replay = Replay::new(pieces(&[&LONG, b"end"], None), true);
            let length = replay.play().collect(u64::MAX).await.unwrap().len();
            assert_eq!(length, REPLAY_BYTES + 4);
            assert!(!replay.is_playable());
        });
    }

    struct Slices(std::vec::IntoIter<Bytes>);

    impl BodyStream for Slices {
        fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
            Poll::Ready(self.0.next().map(|data| Ok(Frame::Data(data))))
        }

        fn length(&self) -> Option<u64> {
            None
        }
    }

    struct Ended(u64);

    impl BodyStream for Ended {
        fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
            Poll::Ready(None)
        }

        fn length(&self) -> Option<u64> {
            Some(self.0)
        }
    }

    #[test]
    fn a_body_without_content_is_whole_at_its_end() {
        net::worker::block_on_local(async {
            let mut replay = Replay::new(Body::stream(Ended(0)), true);
            replay.begin().await.unwrap();
            assert!(!replay.is_awaited() && replay.is_playable());
            assert_eq!(replay.play().length(), Some(0));
            assert!(Replay::new(Body::stream(Ended(1)), true).begin().await.is_err());
        });
    }

    #[test]
    fn a_stored_short_piece_pins_no_receive_buffer() {
        net::worker::block_on_local(async {
            let block = Bytes::from(vec![b'x'; 64 * 1024]);
            let pieces = vec![block.slice(..10), block.slice(100..110)].into_iter();
            let mut replay = Replay::new(Body::stream(Slices(pieces)), true);
            assert_eq!(replay.play().collect(100).await.unwrap().len(), 20);
            assert!(block.is_unique());
            assert_eq!(replay.play().collect(100).await.unwrap().len(), 20);
        });
    }

    #[test]
    fn a_body_in_too_many_pieces_cannot_be_played_again() {
        net::worker::block_on_local(async {
            for (pieces, playable) in [(REPLAY_PIECES, true), (REPLAY_PIECES + 1, false)] {
                let pieces = vec![Bytes::from_static(b"x"); pieces];
                let length = pieces.len();
                let slices = Body::stream(Slices(pieces.into_iter()));
                let mut replay = Replay::new(slices, true);
                let played = replay.play().collect(u64::MAX).await.unwrap();
                assert_eq!((played.len(), replay.is_playable()), (length, playable));
            }
        });
    }

    #[test]
    fn without_retries_nothing_is_stored() {
        let mut replay = Replay::new(Body::from("once"), false);
        assert!(replay.is_playable());
        replay.play();
        assert!(!replay.is_playable());
    }
}
