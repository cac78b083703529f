//! The handshake on a stream, as its server or its client.

use std::future::poll_fn;
use std::io;

use bytes::{Bytes, BytesMut};
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use wire::client_hello::HelloReader;

use super::challenge::is_challenge;
use super::client::{CertificateName, ClientTls};
use super::layer::{Layer, flush, flush_unowed, read_once};
use super::server::ServerTls;
use super::session::{Connection, Session, store_all};
use crate::readiness::{Side, Source};
use crate::stream::Stream;

/// Why a handshake with a client failed.
#[derive(Debug)]
pub enum AcceptError {
    /// The client speaks plain HTTP: its connection, and what it sent.
    PlainText(Stream, Bytes),
    /// The connection ended, or the client's TLS is unacceptable.
    Failed(io::Error),
}

impl From<io::Error> for AcceptError {
    fn from(error: io::Error) -> Self {
        AcceptError::Failed(error)
    }
}

impl Stream {
    /// Performs the handshake with a client. It takes as long as the client does: the caller sets
    /// a time-out; what the client sends is bounded.
    pub async fn accept_tls(self, tls: &ServerTls) -> Result<Stream, AcceptError> {
        let (config, mut received) = match &tls.challenge {
            None => (&tls.config, BytesMut::new()),
            Some(challenge) => match self.receive_hello().await? {
                (true, received) => (challenge, received),
                (false, received) => (&tls.config, received),
            },
        };
        let connection =
            UnbufferedServerConnection::new(config.clone()).map_err(io::Error::other)?;
        let mut layer = Layer::new(Session::new(Connection::Server(connection)));
        if !received.is_empty() {
            process_received(layer.session(), self.source(), &mut received)?;
        }
        handshake(layer.session(), self.source()).await?;
        if let Some(received) = layer.session().take_plain_text() {
            return Err(AcceptError::PlainText(self, received));
        }
        Ok(self.with_tls(layer.established()))
    }

    /// Receives the client's first message, as far as it is well-formed. Returns whether it is that
    /// of a certificate authority that validates a name, and all that was received.
    async fn receive_hello(&self) -> io::Result<(bool, BytesMut)> {
        let (mut reader, mut received) = (HelloReader::default(), BytesMut::new());
        loop {
            let chunk = self.receive().await?;
            if chunk.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            received.extend_from_slice(&chunk);
            match reader.feed(&chunk) {
                Ok(None) => {}
                Ok(Some(hello)) => {
                    let protocols = hello.protocols.iter().map(|protocol| &**protocol);
                    return Ok((is_challenge(protocols), received));
                }
                // rustls has the alert.
                Err(_) => return Ok((false, received)),
            }
        }
    }

    /// Performs the handshake with a server whose certificate must have this name. The caller sets
    /// a time-out.
    pub async fn connect_tls(self, tls: &ClientTls, name: &CertificateName) -> io::Result<Stream> {
        let connection = UnbufferedClientConnection::new(tls.config.clone(), name.0.clone())
            .map_err(io::Error::other)?;
        let mut layer = Layer::new(Session::new(Connection::Client(connection)));
        layer.session().begin()?;
        handshake(layer.session(), self.source()).await?;
        Ok(self.with_tls(layer.established()))
    }
}

/// Processes what was received before the session began.
fn process_received(session: &mut Session, source: &Source, received: &mut [u8]) -> io::Result<()> {
    let mut sink = store_all();
    let processed = session.receive(received, &mut sink);
    session.plaintext = sink.rest.freeze();
    if processed.is_err() {
        // The alert.
        flush_unowed(session, source);
    }
    processed
}

/// Sends and receives until the handshake is complete or the client turns out to speak plain HTTP.
async fn handshake(session: &mut Session, source: &Source) -> io::Result<()> {
    loop {
        if session.is_ready_to_respond() {
            return Ok(());
        }
        while !session.output.is_empty() {
            match flush(session, source) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll_fn(|cx| source.poll_ready(Side::Write, cx)).await?;
                }
                sent => {
                    sent?;
                }
            }
        }
        if session.has_plain_text() || !session.state().is_handshaking() {
            return Ok(());
        }
        let mut sink = store_all();
        match read_once(session, source, &mut sink) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_fn(|cx| source.poll_ready(Side::Read, cx)).await?;
            }
            Err(error) => {
                // The alert.
                flush_unowed(session, source);
                return Err(error);
            }
            Ok(_) => {}
        }
        // The first request may arrive together with the end of the handshake.
        session.plaintext = sink.rest.freeze();
    }
}
