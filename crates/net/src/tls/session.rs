//! One TLS connection without its socket: records in, plaintext out, and the reverse.
//!
//! Owns rustls' state of the connection and the bytes that wait in either direction. Promises: an
//! idle session holds no buffer, and bytes that wait for their rest are bounded. Never reads or
//! writes a socket; `stream.rs` does.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CommonState, Error, InvalidMessage, ProtocolVersion};

use super::resolver::{self, Resolved};

/// Largest plaintext of one record (RFC 8446 5.1).
pub(super) const RECORD_BYTES_MAX: usize = 16 * 1024;
/// More than what any record adds to its plaintext: header, nonce, tag, content type.
pub(super) const RECORD_OVERHEAD_MAX: usize = 64;
/// Most bytes of an incomplete record or handshake message. A client's certificate chain is the
/// longest message that is expected.
const PARTIAL_BYTES_MAX: usize = 64 * 1024;

/// rustls' state of one side of a connection.
pub(super) enum Connection {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

impl Connection {
    pub(super) fn state(&self) -> &CommonState {
        match self {
            Connection::Server(connection) => connection,
            Connection::Client(connection) => connection,
        }
    }
}

pub(super) struct Session {
    connection: Connection,
    /// The beginning of a record or handshake message whose rest has not arrived.
    partial: BytesMut,
    /// Decrypted, and not yet received by the owner of the stream.
    pub(super) plaintext: Bytes,
    /// Records that the socket has not taken.
    pub(super) output: BytesMut,
    /// Bytes at the front of the owner's send queue that are in `output` already: they leave the
    /// queue as `output` leaves, so that a queue is empty only once the socket has taken all of it.
    pub(super) owed: usize,
    /// The peer has announced the end of its data (close_notify).
    pub(super) has_ended: bool,
    has_sent_end: bool,
    /// close_notify leaves with the last bytes of the owner's queue.
    pub(super) ends_with_queue: bool,
    /// The error that ended the session, which every later call returns. rustls is not called
    /// again: it would expect bytes that are gone.
    failure: Option<Box<Error>>,
    /// The client's request and the presented certificate; on the server's side, after the client
    /// hello.
    pub(super) resolved: Option<Resolved>,
    /// What arrived first, if that is not TLS.
    greeting: Greeting,
}

/// The first bytes of a connection.
enum Greeting {
    Awaited,
    Tls,
    /// A client's that speaks plain HTTP.
    PlainText(Bytes),
}

/// Takes the plaintext of one call of [`Session::receive`].
pub(super) struct Sink<F> {
    /// Lent the first plaintext if it is all there is; returns how many bytes it has consumed.
    borrower: Option<F>,
    /// Length of that plaintext.
    pub(super) lent: usize,
    /// Whatever the borrower was not lent or has not consumed.
    pub(super) rest: BytesMut,
    is_storing: bool,
}

/// Lends nothing: the plaintext is stored.
pub(super) fn store_all() -> Sink<fn(&[u8]) -> usize> {
    Sink { borrower: None, lent: 0, rest: BytesMut::new(), is_storing: false }
}

impl<F: FnOnce(&[u8]) -> usize> Sink<F> {
    pub(super) fn new(borrower: F) -> Sink<F> {
        Sink { borrower: Some(borrower), lent: 0, rest: BytesMut::new(), is_storing: false }
    }

    /// Keeps the borrower for [`Sink::lend`].
    pub(super) fn store(&mut self) {
        self.is_storing = true;
    }

    /// Lends bytes to the borrower, unless bytes were lent to it before; returns how many it has
    /// consumed.
    pub(super) fn lend(&mut self, bytes: &[u8]) -> usize {
        self.borrower.take().map_or(0, |borrower| borrower(bytes))
    }

    fn take(&mut self, plaintext: &[u8], is_last: bool) {
        let mut rest = plaintext;
        if is_last
            && !self.is_storing
            && self.rest.is_empty()
            && !plaintext.is_empty()
            && let Some(borrower) = self.borrower.take()
        {
            self.lent = plaintext.len();
            rest = &plaintext[borrower(plaintext).min(plaintext.len())..];
        }
        self.rest.extend_from_slice(rest);
    }
}

/// What to write when rustls allows it.
enum Write<'a> {
    Nothing,
    Plaintext(&'a [u8], &'a mut [u8]),
    CloseNotify(&'a mut [u8]),
}

/// What one step of rustls' state machine led to.
enum Step {
    /// There may be more to do.
    Again,
    /// More bytes of the peer are needed.
    Blocked,
    Ended,
    /// This many bytes were written.
    Written(usize),
}

impl Session {
    pub(super) fn new(connection: Connection) -> Session {
        Session {
            connection,
            partial: BytesMut::new(),
            plaintext: Bytes::new(),
            output: BytesMut::new(),
            owed: 0,
            has_ended: false,
            has_sent_end: false,
            ends_with_queue: false,
            failure: None,
            resolved: None,
            greeting: Greeting::Awaited,
        }
    }

    pub(super) fn state(&self) -> &CommonState {
        self.connection.state()
    }

    pub(super) fn is_server(&self) -> bool {
        matches!(self.connection, Connection::Server(_))
    }

    /// True if the handshake is complete and has brought a request. `output` is sent with its
    /// response then: it holds a session ticket. A client of TLS 1.2 waits for what it holds.
    pub(super) fn is_ready_to_respond(&self) -> bool {
        let state = self.state();
        self.is_server()
            && !self.plaintext.is_empty()
            && !state.is_handshaking()
            && state.protocol_version() == Some(ProtocolVersion::TLSv1_3)
    }

    pub(super) fn has_plain_text(&self) -> bool {
        matches!(self.greeting, Greeting::PlainText(_))
    }

    /// What a client has sent that speaks plain HTTP.
    pub(super) fn take_plain_text(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.greeting, Greeting::Tls) {
            Greeting::PlainText(received) => Some(received),
            _ => None,
        }
    }

    /// Begins a client's handshake: its first message is in `output` afterwards.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.receive(&mut [], &mut store_all())
    }

    /// Processes bytes that have arrived. An error leaves the alert for the peer in `output`.
    pub(super) fn receive<F: FnOnce(&[u8]) -> usize>(
        &mut self,
        arrived: &mut [u8],
        sink: &mut Sink<F>,
    ) -> io::Result<()> {
        if let Greeting::Awaited = self.greeting
            && let Some(first) = arrived.first()
        {
            // A method, where a record would begin with its type, a control character.
            if self.is_server() && first.is_ascii_uppercase() {
                self.greeting = Greeting::PlainText(Bytes::copy_from_slice(arrived));
                return Ok(());
            }
            self.greeting = Greeting::Tls;
        }
        self.check()?;
        let processed = if self.partial.is_empty() {
            self.process(arrived, sink)
                .inspect(|used| self.partial.extend_from_slice(&arrived[*used..]))
        } else {
            let mut partial = std::mem::take(&mut self.partial);
            partial.extend_from_slice(arrived);
            self.process(&mut partial, sink).inspect(|used| {
                partial.advance(*used);
                // Without a rest the buffer is released: the session is idle.
                self.partial = if partial.is_empty() { BytesMut::new() } else { partial };
            })
        };
        if self.is_server() && self.resolved.is_none() {
            self.resolved = resolver::take_resolved();
        }
        match processed {
            Ok(_) if self.partial.len() > PARTIAL_BYTES_MAX => {
                Err(self.fail(InvalidMessage::MessageTooLarge.into()))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Returns the error that has ended the session, if one has.
    pub(super) fn check(&self) -> io::Result<()> {
        match &self.failure {
            Some(error) => Err(invalid_data(error)),
            None => Ok(()),
        }
    }

    fn fail(&mut self, error: Error) -> io::Error {
        invalid_data(self.failure.insert(Box::new(error)))
    }

    /// Processes all complete records; returns how many bytes they were.
    fn process<F: FnOnce(&[u8]) -> usize>(
        &mut self,
        incoming: &mut [u8],
        sink: &mut Sink<F>,
    ) -> Result<usize, Error> {
        let mut used = 0;
        loop {
            if self.has_ended {
                // Whatever follows close_notify is ignored (RFC 8446 6.1).
                return Ok(incoming.len());
            }
            let (discard, step) = self.step(&mut incoming[used..], sink, &mut Write::Nothing);
            used += discard;
            let step = match step {
                Ok(step) => step,
                Err(error) => {
                    // Further steps encode the messages before the error, and the alert. One more
                    // would process the same bytes, and panic.
                    while self.state().wants_write() {
                        let incoming = &mut incoming[used..];
                        used += self.step(incoming, sink, &mut Write::Nothing).0;
                    }
                    return Err(error);
                }
            };
            match step {
                Step::Again => {}
                Step::Ended => self.has_ended = true,
                Step::Blocked | Step::Written(_) => return Ok(used),
            }
        }
    }

    fn step<F: FnOnce(&[u8]) -> usize>(
        &mut self,
        incoming: &mut [u8],
        sink: &mut Sink<F>,
        write: &mut Write<'_>,
    ) -> (usize, Result<Step, Error>) {
        let length = incoming.len();
        let output = &mut self.output;
        match &mut self.connection {
            Connection::Server(connection) => {
                step(connection.process_tls_records(incoming), length, output, sink, write)
            }
            Connection::Client(connection) => {
                step(connection.process_tls_records(incoming), length, output, sink, write)
            }
        }
    }

    /// Encrypts `plaintext` into `records`, which must be large enough; returns their length. What
    /// `output` holds afterwards precedes them.
    pub(super) fn encrypt(&mut self, plaintext: &[u8], records: &mut [u8]) -> io::Result<usize> {
        self.write(Write::Plaintext(plaintext, records))
    }

    /// Counts `sent` of the `length` bytes that waited as sent; returns how many bytes of the
    /// owner's queue they are. At least one is owed while records wait.
    pub(super) fn credit(&mut self, sent: usize, length: usize) -> usize {
        let credit = if sent == length {
            self.owed
        } else {
            (self.owed * sent / length).min(self.owed.saturating_sub(1))
        };
        self.owed -= credit;
        credit
    }

    /// Writes close_notify into `record`, once; returns its length.
    pub(super) fn encrypt_end(&mut self, record: &mut [u8]) -> usize {
        if std::mem::replace(&mut self.has_sent_end, true) || self.state().is_handshaking() {
            return 0;
        }
        self.write(Write::CloseNotify(record)).unwrap_or(0)
    }

    /// Appends close_notify to `output`, once.
    pub(super) fn end(&mut self) {
        let mut record = [0; RECORD_OVERHEAD_MAX];
        let length = self.encrypt_end(&mut record);
        self.output.extend_from_slice(&record[..length]);
    }

    /// Lets rustls write; messages that must be sent first (a key update) are appended to `output`.
    fn write(&mut self, mut write: Write<'_>) -> io::Result<usize> {
        self.check()?;
        // rustls expects the bytes that it has not discarded, also where nothing has arrived.
        let mut partial = std::mem::take(&mut self.partial);
        let mut sink = store_all();
        let written = loop {
            let (discard, step) = self.step(&mut partial, &mut sink, &mut write);
            partial.advance(discard);
            match step {
                Ok(Step::Written(length)) => break Ok(length),
                Ok(Step::Again) => {}
                Ok(Step::Ended) => self.has_ended = true,
                Ok(Step::Blocked) => break Err(io::ErrorKind::NotConnected.into()),
                Err(error) => break Err(self.fail(error)),
            }
        };
        self.partial = partial;
        written
    }
}

fn invalid_data(error: &Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.clone())
}

/// Carries out one step of rustls' state machine; returns how many bytes of `incoming` are done
/// with.
fn step<Data, F: FnOnce(&[u8]) -> usize>(
    status: UnbufferedStatus<'_, '_, Data>,
    incoming: usize,
    output: &mut BytesMut,
    sink: &mut Sink<F>,
    write: &mut Write<'_>,
) -> (usize, Result<Step, Error>) {
    let UnbufferedStatus { discard, state } = status;
    let step = state.and_then(|state| match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                sink.take(record?.payload, discard == incoming);
            }
            Ok(Step::Again)
        }
        ConnectionState::EncodeTlsData(mut data) => {
            let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) else {
                return Err(Error::EncryptError);
            };
            let before = output.len();
            output.resize(before + needed.required_size, 0);
            let encoded = data.encode(&mut output[before..]);
            encoded.map(|_| Step::Again).map_err(|_| Error::EncryptError)
        }
        ConnectionState::TransmitTlsData(transmit) => {
            transmit.done();
            Ok(Step::Again)
        }
        ConnectionState::WriteTraffic(mut traffic) => {
            let written = match write {
                Write::Nothing => return Ok(Step::Blocked),
                Write::Plaintext(plaintext, records) => traffic.encrypt(plaintext, records),
                Write::CloseNotify(record) => traffic.queue_close_notify(record),
            };
            written.map(Step::Written).map_err(|_: EncryptError| Error::EncryptError)
        }
        ConnectionState::PeerClosed => Ok(Step::Ended),
        // Early data is not offered, so that no request is replayed.
        ConnectionState::ReadEarlyData(_) => Err(Error::HandshakeNotComplete),
        _ => Ok(Step::Blocked),
    });
    (discard, step)
}
