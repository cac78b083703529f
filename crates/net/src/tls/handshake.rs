//! The handshake on a stream, as its server or its client.

use std::future::poll_fn;
use std::io;

use bytes::Bytes;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;

use super::client::{CertificateName, ClientTls};
use super::layer::{Layer, flush, read_once};
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
        let connection =
            UnbufferedServerConnection::new(tls.config.clone()).map_err(io::Error::other)?;
        let mut layer = Layer::new(Session::new(Connection::Server(connection)));
        handshake(layer.session(), self.source()).await?;
        if let Some(received) = layer.session().take_plain_text() {
            return Err(AcceptError::PlainText(self, received));
        }
        Ok(self.with_tls(layer.established()))
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

/// Sends and receives until the handshake is complete or the client turns out to speak plain HTTP.
async fn handshake(session: &mut Session, source: &Source) -> io::Result<()> {
    loop {
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
            received => {
                received?;
            }
        }
        // The first request may arrive together with the end of the handshake.
        session.plaintext = sink.rest.freeze();
    }
}
