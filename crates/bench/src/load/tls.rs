//! TLS 1.3 of the load generator's connections.
//!
//! Promises the same cipher suite (AES-128-GCM), key exchange (X25519) and certificate for every
//! server, so that their costs can be compared, and that a handshake of another kind than the one
//! that is measured is an error. The certificate is verified as a client should. Every response is
//! checked behind it, decrypted.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore, version};
use socket2::Socket;

use super::{Address, Sent};

/// The name in the certificate of every server.
pub(crate) const SERVER_NAME: &str = "localhost";
/// Session tickets that are stored of one server: more than connections that begin at a time.
const TICKETS_MAX: usize = 4096;

/// The handshakes of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshakes {
    Full,
    /// With the tickets of sessions before. One without a ticket is a full one, and an error, so
    /// the first connections to a server fail: those of the warm-up.
    Resumed,
}

/// The TLS settings of connections. All loads with the same value share the session tickets of a
/// server.
#[derive(Debug)]
pub struct Tls {
    root: Arc<RootCertStore>,
    handshakes: Handshakes,
    servers: Mutex<HashMap<Address, Arc<ClientConfig>>>,
}

impl Tls {
    /// For servers with this self-signed certificate.
    pub fn new(certificate: Vec<u8>, handshakes: Handshakes) -> io::Result<Self> {
        let mut root = RootCertStore::empty();
        root.add(CertificateDer::from(certificate)).map_err(io::Error::other)?;
        Ok(Self { root: Arc::new(root), handshakes, servers: Mutex::default() })
    }

    pub(super) fn handshakes(&self) -> Handshakes {
        self.handshakes
    }

    fn config(&self, address: &Address) -> io::Result<Arc<ClientConfig>> {
        let mut servers = locked(&self.servers);
        if let Some(config) = servers.get(address) {
            return Ok(Arc::clone(config));
        }
        let provider = CryptoProvider {
            cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
            kx_groups: vec![kx_group::X25519],
            ..default_provider()
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(io::Error::other)?
            .with_root_certificates(Arc::clone(&self.root))
            .with_no_client_auth();
        config.resumption = match self.handshakes {
            Handshakes::Full => Resumption::disabled(),
            Handshakes::Resumed => Resumption::store(Arc::new(Tickets::default())),
        };
        let config = Arc::new(config);
        servers.insert(address.clone(), Arc::clone(&config));
        Ok(config)
    }

    /// The session of a new connection.
    pub(super) fn session(&self, address: &Address) -> io::Result<Session> {
        let name = ServerName::try_from(SERVER_NAME).map_err(io::Error::other)?;
        let mut tls =
            ClientConnection::new(self.config(address)?, name).map_err(io::Error::other)?;
        // A request is buffered until the handshake is over, whatever its length.
        tls.set_buffer_limit(None);
        let expected = match self.handshakes {
            Handshakes::Full => HandshakeKind::Full,
            Handshakes::Resumed => HandshakeKind::Resumed,
        };
        Ok(Session { tls, expected })
    }
}

/// A writer that panicked has left a map or a queue that can be read.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tickets of one server; each is used once (RFC 8446 C.4). The store of rustls has room for
/// eight, which is too few for connections that begin together.
#[derive(Default)]
struct Tickets(Mutex<VecDeque<Tls13ClientSessionValue>>);

impl std::fmt::Debug for Tickets {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} tickets", locked(&self.0).len())
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut tickets = locked(&self.0);
        if tickets.len() == TICKETS_MAX {
            tickets.pop_front();
        }
        tickets.push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        locked(&self.0).pop_back()
    }
}

/// The TLS session of one connection.
#[derive(Debug)]
pub(super) struct Session {
    tls: ClientConnection,
    expected: HandshakeKind,
}

impl Session {
    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// True if the handshake was of the kind that is measured.
    pub(super) fn is_as_expected(&self) -> bool {
        self.tls.handshake_kind() == Some(self.expected)
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// Takes bytes to send; during the handshake they are sent after it.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tls.writer().write_all(bytes)
    }

    /// Sends what is encrypted, as far as the socket takes it.
    pub(super) fn flush(&mut self, socket: &Socket) -> io::Result<Sent> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Quiet(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Sent::Part),
                Err(error) => return Err(error),
            }
        }
        Ok(Sent::All)
    }

    /// Decrypts received bytes; appends what is not the protocol's own.
    pub(super) fn receive(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        while !bytes.is_empty() {
            // 0 after the peer's close_notify: nothing behind it counts.
            if self.tls.read_tls(&mut bytes)? == 0 {
                return Ok(());
            }
            self.tls.process_new_packets().map_err(io::Error::other)?;
            match self.tls.reader().read_to_end(plain) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A socket whose peer may be gone: that is an error to count, not a signal to die of.
struct Quiet<'a>(&'a Socket);

impl Write for Quiet<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_with_flags(bytes, libc::MSG_NOSIGNAL)
    }

    /// Several messages of a handshake are one packet.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send_vectored_with_flags(slices, libc::MSG_NOSIGNAL)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
