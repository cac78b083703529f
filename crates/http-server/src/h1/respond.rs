//! Sends a response: headers and body, with back-pressure, time-out, and detection of a closed
//! client.
//!
//! A body in memory is queued with its headers and sent in one call, as are the parts of a streamed
//! body that are there already. It is polled only while the queue is short, so a slow client slows
//! its source.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use net::{FileRange, task};
use wire::Version;
use wire::h1::{CHUNK_END, LAST_CHUNK_LINE, chunk_head, trailer_section};

use super::connection_io::ConnectionIo;
use super::head::{self, Framing, Persistence};
use crate::sending::{ContentCount, SendError, WriteProgress};
use message::{Body, BodyStream, Fault, Frame, Headers, Response, TransferTimeout};

/// Queued bytes above which a streamed body is not polled.
const QUEUE_BYTES_MAX: u64 = 64 * 1024;
/// Queued bytes that are sent before a streamed body is polled again: about one read of its source,
/// which reuses its memory when they are gone.
const GATHERED_BYTES_MAX: u64 = 32 * 1024;

/// How a response is sent.
#[derive(Clone, Copy)]
pub(super) struct SendOptions {
    pub(super) to_head: bool,
    pub(super) version: Version,
    pub(super) persistence: Persistence,
    pub(super) timeout: TransferTimeout,
    pub(super) half_close: bool,
    /// No further request is in the buffer: there is no reason to accumulate responses.
    pub(super) at_once: bool,
    /// Further responses are expected soon, so this one may be sent together with them.
    pub(super) deferrable: bool,
}

/// A response in the queue.
pub(super) struct Queued {
    /// The connection option of the response.
    pub(super) persistence: Persistence,
    /// Length of the body that was queued.
    pub(super) body_bytes: u64,
    /// The body that has to be waited for.
    pub(super) stream: Option<Box<Streaming>>,
}

/// Queues a response: its head, and its body unless that arrives over time.
pub(super) fn queue(io: &Rc<ConnectionIo>, response: Response, options: &SendOptions) -> Queued {
    let (framing, with_body) = head::framing(&response, options.to_head, options.version);
    let persistence =
        if framing == Framing::Close { Persistence::Close } else { options.persistence };
    let copied: &[u8] = match &response.body {
        Body::Bytes(bytes) if with_body && bytes.len() <= Body::COPIED_BYTES_MAX => bytes,
        Body::Kept(bytes) if with_body && bytes.len() <= Body::COPIED_BYTES_MAX => bytes,
        _ => &[],
    };
    let closes = persistence == Persistence::Close;
    if closes && !(with_body && matches!(response.body, Body::Stream(_))) {
        io.stream.end_with_queue();
    }
    // If nothing is queued and nothing follows, it is sent from where it was written.
    let whole = !with_body || response.body.is_empty() || !copied.is_empty();
    let at_once = options.at_once && whole && io.out.borrow().is_empty();
    let room_min = 1024 + copied.len();
    let write = |room: &mut BytesMut| {
        head::write(room, &response, framing, persistence);
        room.put_slice(copied);
    };
    if at_once && options.deferrable && !closes && task::may_defer() {
        io.defer(room_min, write);
        return Queued { persistence, body_bytes: copied.len() as u64, stream: None };
    }
    let mut out = io.out.borrow_mut();
    let send = |bytes: &[u8]| if at_once { io.send_now(bytes) } else { 0 };
    out.push(head::compose_and_send(room_min, write, send));
    let mut body_bytes = copied.len() as u64;
    let mut stream = None;
    if with_body && body_bytes == 0 {
        match response.body {
            Body::Empty => {}
            Body::Bytes(bytes) => {
                body_bytes = bytes.len() as u64;
                out.push(bytes);
            }
            Body::Kept(bytes) => {
                body_bytes = bytes.len() as u64;
                out.push(Bytes::copy_from_slice(&bytes));
            }
            Body::File(range) => {
                body_bytes = range.length;
                out.push_file(range);
            }
            Body::Stream(body) => {
                stream = Some(Box::new(Streaming::new(body, framing, closes)));
            }
        }
    }
    Queued { persistence, body_bytes, stream }
}

/// Sends everything that waits, to a client that may be this slow.
pub(super) async fn flush(io: &ConnectionIo, timeout: TransferTimeout) -> Result<(), SendError> {
    let mut progress = WriteProgress::new(timeout);
    poll_fn(|cx| match io.poll_flush(cx) {
        Poll::Ready(sent) => Poll::Ready(sent.map_err(SendError::Write)),
        Poll::Pending => progress.poll(io, cx).map(Err),
    })
    .await
}

/// A response whose body arrives while it is sent.
pub(super) struct Streaming {
    body: Box<dyn BodyStream>,
    framing: Framing,
    /// The connection closes after the response.
    closes: bool,
    count: ContentCount,
    ended: bool,
    /// The socket did not take all of the queue.
    is_full: bool,
}

/// Resets the connection if a body that ends with its connection is dropped before its end, as
/// after the drain time-out: the client must not take the close for that end.
struct ResetOnDrop<'w>(Option<&'w ConnectionIo>);

impl Drop for ResetOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(io) = self.0 {
            io.stream.reset_on_close();
        }
    }
}

impl Streaming {
    fn new(body: Box<dyn BodyStream>, framing: Framing, closes: bool) -> Streaming {
        let announced = match framing {
            Framing::Length(length) => Some(length),
            _ => None,
        };
        let count = ContentCount::new(announced);
        Streaming { body, framing, closes, count, ended: false, is_full: false }
    }

    pub(super) fn body_bytes(&self) -> u64 {
        self.count.sent
    }

    /// Sends the body to its end.
    pub(super) async fn run(
        &mut self,
        io: &ConnectionIo,
        options: &SendOptions,
    ) -> Result<(), SendError> {
        let mut progress = WriteProgress::new(options.timeout);
        let mut failed = pin!(io.stream.failed());
        let mut cut = ResetOnDrop((self.framing == Framing::Close).then_some(io));
        let run = |cx: &mut Context<'_>| {
            self.poll(cx, io, options.half_close, &mut progress, failed.as_mut())
        };
        let outcome = poll_fn(run).await;
        cut.0 = None;
        outcome
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        io: &ConnectionIo,
        half_close: bool,
        progress: &mut WriteProgress,
        failed: Pin<&mut impl Future<Output = ()>>,
    ) -> Poll<Result<(), SendError>> {
        if self.is_full {
            self.is_full = io.poll_flush(cx).is_pending();
        }
        loop {
            let most = if self.is_full { QUEUE_BYTES_MAX } else { GATHERED_BYTES_MAX };
            let mut waits_for_body = false;
            while !self.ended && !waits_for_body && io.out.borrow().length() < most {
                match self.body.poll_frame(cx) {
                    Poll::Pending => waits_for_body = true,
                    Poll::Ready(frame) => {
                        if let Err(broken) = self.take(io, frame) {
                            // The client gets what preceded the failure.
                            io.push_out();
                            return Poll::Ready(Err(broken));
                        }
                    }
                }
            }
            match io.poll_flush(cx) {
                Poll::Ready(Err(error)) => return Poll::Ready(Err(SendError::Write(error))),
                Poll::Ready(Ok(())) => {
                    // The following part waits for the body, not for the client.
                    progress.stop();
                    self.is_full = false;
                }
                Poll::Pending => {
                    self.is_full = true;
                    let has_room = io.out.borrow().length() < QUEUE_BYTES_MAX;
                    if self.ended || waits_for_body || !has_room {
                        return progress.poll(io, cx).map(Err);
                    }
                    continue;
                }
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            if !waits_for_body {
                continue;
            }
            // The reader of the body finds its end, but stops where its content is not taken.
            return match io.is_reading_body() {
                true => failed.poll(cx),
                false => io.poll_gone(cx, half_close),
            }
            .map(|()| Err(SendError::ClientGone));
        }
    }

    fn take(
        &mut self,
        io: &ConnectionIo,
        frame: Option<Result<Frame, Fault>>,
    ) -> Result<(), SendError> {
        match frame {
            Some(Ok(Frame::Data(data))) => self.data(io, data),
            Some(Ok(Frame::File(range))) => self.file(io, range),
            Some(Ok(Frame::Trailers(trailers))) => {
                self.end(io, Some(&trailers));
                Ok(())
            }
            Some(Err(fault)) => Err(self.failed(fault)),
            None => {
                self.count.end().map_err(|fault| self.failed(fault))?;
                self.end(io, None);
                Ok(())
            }
        }
    }

    fn failed(&self, fault: Fault) -> SendError {
        SendError::Body { fault: Box::new(fault), delimited: self.framing != Framing::Close }
    }

    fn data(&mut self, io: &ConnectionIo, data: Bytes) -> Result<(), SendError> {
        if data.is_empty() {
            return Ok(()); // an empty chunk would end the body
        }
        self.count.add(data.len() as u64).map_err(|fault| self.failed(fault))?;
        let chunked = self.framing == Framing::Chunked;
        let mut out = io.out.borrow_mut();
        let copied_max = if self.is_full { WAITING_COPIED_MAX } else { Body::COPIED_BYTES_MAX };
        if !out.is_empty() && data.len() <= copied_max {
            out.push(copied(&data, chunked));
            return Ok(());
        }
        if chunked {
            out.push(size_line(data.len() as u64));
        }
        out.push(data);
        if chunked {
            out.push(Bytes::from_static(CHUNK_END));
        }
        Ok(())
    }

    fn file(&mut self, io: &ConnectionIo, range: FileRange) -> Result<(), SendError> {
        if range.length == 0 {
            return Ok(());
        }
        self.count.add(range.length).map_err(|fault| self.failed(fault))?;
        let chunked = self.framing == Framing::Chunked;
        let mut out = io.out.borrow_mut();
        if chunked {
            out.push(size_line(range.length));
        }
        out.push_file(range);
        if chunked {
            out.push(Bytes::from_static(CHUNK_END));
        }
        Ok(())
    }

    fn end(&mut self, io: &ConnectionIo, trailers: Option<&Headers>) {
        self.ended = true;
        if self.closes {
            io.stream.end_with_queue();
        }
        if self.framing != Framing::Chunked {
            return;
        }
        let mut last = Vec::with_capacity(64);
        last.extend_from_slice(LAST_CHUNK_LINE);
        let fields = trailers.into_iter().flat_map(Headers::iter);
        trailer_section(fields.map(|field| (field.name, field.value)), &mut last);
        io.out.borrow_mut().push(Bytes::from(last));
    }
}

/// A piece up to this size is copied where the socket is full.
const WAITING_COPIED_MAX: usize = 16 * 1024;

/// A piece that will wait for a slow client, in memory of its own: it may be all that holds a block
/// of the worker, and so may the line before it. A small one costs the kernel less in one part.
fn copied(data: &[u8], chunked: bool) -> Bytes {
    let mut piece = Vec::with_capacity(data.len() + 20);
    if chunked {
        chunk_head(data.len(), &mut piece);
    }
    piece.extend_from_slice(data);
    if chunked {
        piece.extend_from_slice(CHUNK_END);
    }
    Bytes::from(piece)
}

fn size_line(length: u64) -> Bytes {
    head::compose(32, |out| {
        let mut line = Vec::with_capacity(18);
        chunk_head(usize::try_from(length).unwrap_or(usize::MAX), &mut line);
        out.put_slice(&line);
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_short_body_leaves_with_its_head_and_pins_no_block() {
        net::worker::block_on_local(async {
            let (ours, client) = net::Stream::pair().unwrap();
            let io = ConnectionIo::new(ours, telemetry::Telemetry::new().worker(0));
            let block = Bytes::from(vec![b'x'; 64 * 1024]);
            let response = Response::text(200, block.slice(..2048));
            let pause = std::time::Duration::from_secs(60);
            let options = SendOptions {
                to_head: false,
                version: Version::Http11,
                persistence: Persistence::Keep,
                timeout: TransferTimeout { pause, rate: 0 },
                half_close: false,
                at_once: true,
                deferrable: false,
            };
            assert_eq!(queue(&io, response, &options).body_bytes, 2048);
            assert!(block.is_unique() && io.out.borrow().is_empty());
            assert!(client.receive().await.unwrap().ends_with(&block[..2048]));
        });
    }

    struct Nothing;

    impl BodyStream for Nothing {
        fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
            Poll::Pending
        }

        fn length(&self) -> Option<u64> {
            None
        }
    }

    #[test]
    fn short_pieces_that_wait_for_a_slow_client_pin_no_blocks() {
        net::worker::block_on_local(async {
            for (framing, sent) in
                [(Framing::Chunked, "1\r\nx\r\n2\r\nxx\r\n"), (Framing::Close, "xxx")]
            {
                let (ours, client) = net::Stream::pair().unwrap();
                let io = ConnectionIo::new(ours, telemetry::Telemetry::new().worker(0));
                let body = Box::new(Nothing);
                let mut streaming = Streaming::new(body, framing, framing == Framing::Close);
                let block = Bytes::from(vec![b'x'; 64 * 1024]);
                // The first is sent at once as a rule.
                assert!(streaming.data(&io, Bytes::copy_from_slice(&block[..1])).is_ok());
                streaming.is_full = true;
                assert!(streaming.data(&io, block.slice(..2)).is_ok());
                assert!(block.is_unique());
                io.push_out();
                assert_eq!(client.receive().await.unwrap(), sent);
            }
        });
    }

    /// Two pieces and the end, all there at once.
    struct Ready {
        io: Rc<ConnectionIo>,
        pieces: Vec<Bytes>,
    }

    impl BodyStream for Ready {
        fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
            assert_eq!(self.io.sent.get(), 0, "each piece was sent on its own");
            Poll::Ready(self.pieces.pop().map(|piece| Ok(Frame::Data(piece))))
        }

        fn length(&self) -> Option<u64> {
            None
        }
    }

    /// Pieces without end, all there at once.
    struct Endless(Rc<Cell<u64>>);

    impl BodyStream for Endless {
        fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
            self.0.set(self.0.get() + 1);
            Poll::Ready(Some(Ok(Frame::Data(Bytes::from(vec![b'x'; 2000])))))
        }

        fn length(&self) -> Option<u64> {
            None
        }
    }

    #[test]
    fn a_body_that_is_there_waits_for_a_slow_client() {
        net::worker::block_on_local(async {
            let (ours, client) = net::Stream::pair().unwrap();
            let io = ConnectionIo::new(ours, telemetry::Telemetry::new().worker(0));
            let pieces = Rc::new(Cell::new(0));
            let body = Box::new(Endless(pieces.clone()));
            let mut streaming = Streaming::new(body, Framing::Chunked, false);
            let pause = std::time::Duration::from_secs(60);
            let mut progress = WriteProgress::new(TransferTimeout { pause, rate: 0 });
            let mut is_pending = async || {
                poll_fn(|cx| {
                    let never = pin!(std::future::pending());
                    let sent = streaming.poll(cx, &io, false, &mut progress, never);
                    Poll::Ready(sent.is_pending())
                })
                .await
            };
            assert!(is_pending().await);
            let queued = io.out.borrow().length();
            let one_more = QUEUE_BYTES_MAX + 2100;
            assert!((QUEUE_BYTES_MAX..one_more).contains(&queued), "{queued}");
            let taken = pieces.get();
            assert!(is_pending().await);
            assert_eq!(pieces.get(), taken, "the body is not asked while the client takes nothing");
            drop(client);
        });
    }

    #[test]
    fn parts_that_are_there_are_sent_together() {
        net::worker::block_on_local(async {
            let (ours, client) = net::Stream::pair().unwrap();
            let io = ConnectionIo::new(ours, telemetry::Telemetry::new().worker(0));
            let pieces = vec![Bytes::from_static(b"23"), Bytes::from(vec![b'1'; 2000])];
            let body = Box::new(Ready { io: io.clone(), pieces });
            io.out.borrow_mut().push(Bytes::from_static(b"head "));
            let mut streaming = Streaming::new(body, Framing::Chunked, false);
            let pause = std::time::Duration::from_secs(60);
            let mut progress = WriteProgress::new(TransferTimeout { pause, rate: 0 });
            let sent = poll_fn(|cx| {
                streaming.poll(cx, &io, false, &mut progress, pin!(std::future::pending()))
            });
            assert!(sent.await.is_ok());
            let text = format!("head 7d0\r\n{}\r\n2\r\n23\r\n0\r\n\r\n", "1".repeat(2000));
            assert_eq!(client.receive().await.unwrap(), text);
        });
    }
}
