//! TLS between a stream and its socket: the operations of a stream, on records.
//!
//! Records are read into the worker's block and decrypted from there, and written from one buffer
//! of the worker, so that a connection holds only what the socket did not take and the beginning of
//! an incomplete record. Never waits.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use bytes::{Buf, Bytes, BytesMut};
use rustix::net::{SendFlags, send};

use super::TlsInfo;
use super::session::{RECORD_BYTES_MAX, RECORD_OVERHEAD_MAX, Session, Sink, store_all};
use crate::outgoing::{COPY_OFFSET, Outgoing};
use crate::readiness::{Side, Source};
use crate::receive::{ROOM_MAX, RecvChunk, lend_mut};

/// Plaintext that is encrypted for one call of the kernel.
const BATCH_BYTES: usize = 4 * RECORD_BYTES_MAX;
/// Bytes after which one attempt to send ends: a file could otherwise continue without end.
const SEND_MAX: usize = 512 * 1024;

/// Buffers of a worker that are empty between calls.
struct Buffers {
    plaintext: Vec<u8>,
    records: Vec<u8>,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> =
        const { RefCell::new(Buffers { plaintext: Vec::new(), records: Vec::new() }) };
}

pub(crate) struct Layer {
    session: RefCell<Session>,
    info: TlsInfo,
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.fmt(f)
    }
}

/// The result of reading records once.
pub(super) struct Received {
    /// Bytes read; zero is the end of the stream.
    length: usize,
    drained: bool,
}

impl Layer {
    /// A layer whose handshake has not begun: boxed, so that it is large in no future.
    pub(super) fn new(session: Session) -> Box<Layer> {
        Box::new(Layer { session: RefCell::new(session), info: TlsInfo::default() })
    }

    pub(super) fn session(&mut self) -> &mut Session {
        self.session.get_mut()
    }

    /// Notes what the handshake has agreed on.
    pub(super) fn established(mut self: Box<Layer>) -> Box<Layer> {
        self.info = super::info(self.session.get_mut());
        self
    }

    pub(crate) fn info(&self) -> &TlsInfo {
        &self.info
    }

    /// True if a receive would return at once without reading the socket.
    pub(crate) fn is_readable(&self) -> bool {
        let session = self.session.borrow();
        !session.plaintext.is_empty() || session.has_ended
    }

    pub(crate) fn has_plaintext(&self) -> bool {
        !self.session.borrow().plaintext.is_empty()
    }

    /// Bytes of records that the socket has not taken.
    pub(crate) fn unsent(&self) -> usize {
        self.session.borrow().output.len()
    }

    /// Returns plaintext, after having lent it to `borrower`: see `Stream::try_receive_with`.
    pub(crate) fn read(
        &self,
        source: &Source,
        at_most: usize,
        borrower: impl FnOnce(&[u8]) -> usize,
    ) -> io::Result<RecvChunk> {
        let session = &mut *self.session.borrow_mut();
        let mut sink = Sink::new(borrower);
        if at_most < RECORD_BYTES_MAX {
            sink.store();
        }
        let mut drained = false;
        while session.plaintext.is_empty() {
            if session.has_ended {
                return Ok(RecvChunk { length: 0, rest: Bytes::new(), drained: false });
            }
            let received = read_once(session, source, &mut sink);
            flush_unowed(session, source);
            let received = received?;
            if received.length == 0 {
                continue;
            }
            drained = received.drained;
            if sink.lent > 0 {
                let rest = std::mem::take(&mut sink.rest).freeze();
                return Ok(RecvChunk { length: sink.lent, rest, drained });
            }
            session.plaintext = std::mem::take(&mut sink.rest).freeze();
        }
        let length = session.plaintext.len().min(at_most.max(1));
        let mut rest = session.plaintext.split_to(length);
        let consumed = sink.lend(&rest);
        rest.advance(consumed.min(length));
        Ok(RecvChunk { length, rest, drained: drained && session.plaintext.is_empty() })
    }

    /// Returns the error that has ended the session, such as an alert, if one has.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.session.borrow().check()
    }

    /// Processes what has arrived; true while that is neither plaintext nor an end.
    pub(crate) fn is_idle(&self, socket: BorrowedFd<'_>) -> bool {
        let session = &mut *self.session.borrow_mut();
        loop {
            if !session.plaintext.is_empty() || session.has_ended {
                return false;
            }
            let mut sink = store_all();
            let read = receive_records(session, socket, &mut sink);
            session.plaintext = sink.rest.freeze();
            match read {
                // Session tickets follow the handshake: the connection stays usable.
                Ok(received) if received.length > 0 => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
                Ok(_) => return false,
            }
        }
    }

    /// Encrypts and sends the queue as far as the socket takes it.
    pub(crate) fn send(&self, source: &Source, outgoing: &mut Outgoing) -> io::Result<usize> {
        let session = &mut *self.session.borrow_mut();
        let mut total = 0;
        while !outgoing.is_empty() && total < SEND_MAX {
            let sent = if session.owed > 0 {
                flush(session, source)
            } else {
                BUFFERS.with_borrow_mut(|buffers| {
                    let plaintext = outgoing.front(&mut buffers.plaintext, BATCH_BYTES)?;
                    let is_whole = plaintext.len() as u64 == outgoing.length();
                    encrypt_and_send(session, source, plaintext, is_whole, &mut buffers.records)
                })
            };
            match sent {
                Ok(sent) => {
                    outgoing.consume(sent);
                    total += sent;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if total > 0 => return Ok(total),
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    /// Like [`Layer::send`], from borrowed bytes. What was not taken must be sent next.
    pub(crate) fn send_slice(&self, source: &Source, bytes: &[u8]) -> io::Result<usize> {
        let session = &mut *self.session.borrow_mut();
        if session.owed > 0 {
            return flush(session, source);
        }
        BUFFERS.with_borrow_mut(|buffers| {
            let plaintext = &bytes[..bytes.len().min(BATCH_BYTES)];
            let is_whole = plaintext.len() == bytes.len();
            encrypt_and_send(session, source, plaintext, is_whole, &mut buffers.records)
        })
    }

    /// Has close_notify leave with the last bytes that are sent next.
    pub(crate) fn end_with_queue(&self) {
        self.session.borrow_mut().ends_with_queue = true;
    }

    /// Announces the end of our data, unless records are incomplete.
    pub(crate) fn finish(&self, source: &Source) {
        let session = &mut *self.session.borrow_mut();
        if session.owed == 0 {
            session.end();
            flush_unowed(session, source);
        }
    }
}

/// Reads from a registered socket once. The caller sends what `output` holds afterwards.
pub(super) fn read_once<F: FnOnce(&[u8]) -> usize>(
    session: &mut Session,
    source: &Source,
    sink: &mut Sink<F>,
) -> io::Result<Received> {
    let mut received = None;
    let result = source.try_io(Side::Read, || {
        let read = received.insert(receive_records(session, source.as_fd(), sink)?);
        // WouldBlock marks the stream as not readable, which saves a call on the next attempt.
        if read.drained { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    match (received, result) {
        (Some(received), _) => Ok(received),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// Reads from a socket once. The end of the stream without close_notify is an error for a client,
/// to which it may be a truncated response, and the client's end for a server.
fn receive_records<F: FnOnce(&[u8]) -> usize>(
    session: &mut Session,
    socket: BorrowedFd<'_>,
    sink: &mut Sink<F>,
) -> io::Result<Received> {
    let mut processed = Ok(());
    let chunk = lend_mut(socket, ROOM_MAX, |records| {
        processed = session.receive(records, sink);
        records.len()
    })?;
    processed?;
    if chunk.length == 0 {
        if !session.is_server() || session.state().is_handshaking() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "ended without close_notify"));
        }
        session.has_ended = true;
    }
    Ok(Received { length: chunk.length, drained: chunk.drained })
}

/// Encrypts `plaintext`, which may be the whole queue, and sends as much as the socket takes,
/// `WouldBlock` if nothing; the rest waits in the session. Returns how many bytes of the plaintext
/// count as sent.
fn encrypt_and_send(
    session: &mut Session,
    source: &Source,
    plaintext: &[u8],
    is_whole: bool,
    records: &mut Vec<u8>,
) -> io::Result<usize> {
    // Nothing is encrypted, and stored, for a socket that is known to be full.
    source.try_io(Side::Write, || Ok(()))?;
    // One more for close_notify.
    let count = plaintext.len().div_ceil(RECORD_BYTES_MAX) + 1;
    let needed = COPY_OFFSET + plaintext.len() + count * RECORD_OVERHEAD_MAX;
    if records.len() < needed {
        records.resize(needed, 0);
    }
    let records = &mut records[COPY_OFFSET..];
    let mut length = session.encrypt(plaintext, records)?;
    if is_whole && session.ends_with_queue {
        length += session.encrypt_end(&mut records[length..]);
    }
    let records = &records[..length];
    session.owed = plaintext.len();
    if !session.output.is_empty() {
        session.output.extend_from_slice(records);
        return flush(session, source);
    }
    let sent = match send_once(source, records) {
        Ok(sent) => sent,
        Err(error) => {
            session.output = BytesMut::from(records);
            return Err(error);
        }
    };
    if sent < length {
        session.output = BytesMut::from(&records[sent..]);
    }
    Ok(session.credit(sent, length))
}

/// Sends records that are not of the owner's queue, as far as the socket takes them: an alert, the
/// response to a key update, a ticket, close_notify. While records of the queue wait, nothing is
/// sent: the owner sends all of them, and has to learn how many of its bytes they were, or it would
/// send those bytes again. After an error the owner sends nothing.
pub(super) fn flush_unowed(session: &mut Session, source: &Source) {
    if session.owed == 0 || session.check().is_err() {
        // A peer that takes nothing learns of the end by the socket.
        let _ = flush(session, source);
    }
}

/// Sends records that wait. Returns how many bytes of the owner's queue count as sent thereby,
/// which the owner must learn.
pub(super) fn flush(session: &mut Session, source: &Source) -> io::Result<usize> {
    let length = session.output.len();
    if length == 0 {
        return Ok(0);
    }
    let sent = send_once(source, &session.output)?;
    session.output.advance(sent);
    if session.output.is_empty() {
        // The buffer is released.
        session.output = BytesMut::new();
    }
    Ok(session.credit(sent, length))
}

fn send_once(source: &Source, records: &[u8]) -> io::Result<usize> {
    let mut taken = None;
    let result = source.try_io(Side::Write, || {
        let sent = send(source.as_fd(), records, SendFlags::NOSIGNAL)?;
        taken = Some(sent);
        if sent < records.len() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    });
    match (taken, result) {
        (Some(sent), _) => Ok(sent),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
    }
}
