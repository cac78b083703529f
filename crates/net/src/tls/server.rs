//! What a listener offers: certificates, versions, protocols, client authentication, tickets.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, SupportedProtocolVersion};

use super::certificate::{CertificateKey, read_chain};
use super::challenge::CHALLENGE_PROTOCOL;
use super::resolver::Resolver;
use super::tickets::{self, TicketKeys};

/// A protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

impl TlsVersion {
    pub(super) fn and_later(self) -> &'static [&'static SupportedProtocolVersion] {
        static FROM_TLS12: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
        match self {
            TlsVersion::Tls12 => FROM_TLS12,
            TlsVersion::Tls13 => &FROM_TLS12[..1],
        }
    }
}

/// What clients have to prove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuth {
    /// Certificate authorities in PEM.
    pub authorities: Vec<u8>,
    /// Whether a client without a certificate is rejected.
    pub required: bool,
}

/// Options of [`ServerTls::new`].
#[derive(Clone, Debug, PartialEq)]
pub struct ServerOptions {
    /// The first is the default. Without any, handshakes fail.
    pub certificates: Vec<CertificateKey>,
    /// Presents challenge certificates to a certificate authority: see
    /// [`ChallengeCertificate`](super::ChallengeCertificate).
    pub answers_challenges: bool,
    /// Rejects clients that name no server or one that no certificate has.
    pub reject_unknown_names: bool,
    pub min_version: TlsVersion,
    /// Protocols of ALPN, preferred ones first. Without any, ALPN is not negotiated.
    pub protocols: Vec<Vec<u8>>,
    pub client_auth: Option<ClientAuth>,
    /// Contents of ticket key files, the one that encrypts first. Without any the keys of the
    /// process are used: random ones, or those of [`share_ticket_keys`](super::share_ticket_keys).
    pub ticket_keys: Vec<Vec<u8>>,
}

/// The TLS settings of a listener, shared by all workers.
#[derive(Clone)]
pub struct ServerTls {
    pub(super) config: Arc<ServerConfig>,
    /// For connections of a certificate authority, where `config` selects no protocol: with the
    /// challenge's alone, it would reject the clients that offer others.
    pub(super) challenge: Option<Arc<ServerConfig>>,
    resolver: Arc<Resolver>,
    options: Arc<ServerOptions>,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerTls").field(&self.options.certificates).finish()
    }
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        self.options == other.options
    }
}

impl ServerTls {
    /// Checks the options. An error concerns the certificate authorities of clients: the
    /// certificates were checked when they were loaded.
    pub fn new(options: ServerOptions) -> Result<ServerTls, String> {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(options.min_version.and_later())
            .map_err(|error| error.to_string())?;
        let builder = match &options.client_auth {
            None => builder.with_no_client_auth(),
            Some(auth) => {
                let roots = Arc::new(roots(&auth.authorities)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier =
                    if auth.required { verifier } else { verifier.allow_unauthenticated() };
                let verifier = verifier.build().map_err(|error| error.to_string())?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let resolver = Resolver::new(&options.certificates, options.reject_unknown_names);
        let resolver = Arc::new(resolver);
        let mut config = builder.with_cert_resolver(resolver.clone());
        config.alpn_protocols = options.protocols.clone();
        // One connection needs one ticket to be resumed; each costs an encryption and an HKDF.
        config.send_tls13_tickets = 1;
        // Sessions are in the tickets: no table is shared by workers or bounded by their number.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        let context = ticket_context(options.client_auth.as_ref());
        let ticketer = if options.ticket_keys.is_empty() {
            tickets::of_process(context)
        } else {
            TicketKeys::derive(&options.ticket_keys, context).map(|keys| Arc::new(keys) as _)
        };
        config.ticketer = ticketer.map_err(|error| error.to_string())?;
        let mut challenge = None;
        if options.answers_challenges {
            let offers_none = config.alpn_protocols.is_empty();
            let of_challenge =
                if offers_none { challenge.insert(config.clone()) } else { &mut config };
            of_challenge.alpn_protocols.push(CHALLENGE_PROTOCOL.to_vec());
        }
        let (config, challenge) = (Arc::new(config), challenge.map(Arc::new));
        Ok(ServerTls { config, challenge, resolver, options: Arc::new(options) })
    }

    /// True if a request for `host`, in lower case, may come on a connection that was made for
    /// `server_name`: they are the same, or a certificate that is presented for the server name has
    /// the host's.
    pub fn serves(&self, server_name: &str, host: &str) -> bool {
        server_name == host || self.resolver.covers(server_name, host)
    }

    /// The options it was made from.
    pub fn options(&self) -> &ServerOptions {
        &self.options
    }
}

/// Reads certificate authorities in PEM.
pub(super) fn roots(authorities: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for authority in read_chain(authorities)? {
        roots.add(authority).map_err(|error| format!("not a certificate authority: {error}"))?;
    }
    Ok(roots)
}

/// What listeners must have in common for one to resume sessions of the other.
fn ticket_context(client_auth: Option<&ClientAuth>) -> [u8; 32] {
    let mut digest = Context::new(&SHA256);
    if let Some(auth) = client_auth {
        digest.update(&[1, u8::from(auth.required)]);
        digest.update(&auth.authorities);
    }
    let mut context = [0; 32];
    context.copy_from_slice(digest.finish().as_ref());
    context
}
