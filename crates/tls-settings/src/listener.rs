//! `listeners.NAME.tls`: what a listener offers, and what it demands of clients.

use net::tls::{ClientAuth, ServerOptions, ServerTls, TICKET_KEY_BYTES_MIN};
use settings::{Address, Duration, Node, Reader, Setting, Span, Spanned};

use crate::acme::{AcmePlan, AcmeSettings};
use crate::certificate::{CertificateSetting, Version, read_file};

/// TLS of a listener.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_listener)]
pub struct ListenerTlsSettings {
    /// Certificates with their keys. The one whose names fit the name that the client asks for
    /// (SNI) is presented: an exact name wins over a wildcard. Several for the same names are tried
    /// in this order, so that clients without ECDSA get RSA.
    #[setting(default = [])]
    pub certificates: Vec<CertificateSetting>,
    /// Certificates from a certificate authority, in addition to those or instead.
    #[setting(example = { "domains": ["shop.example.com"], "email": "ops@example.com" })]
    pub acme: Option<AcmeSettings>,
    /// The response to a handshake without a server name, or with one that no certificate has.
    #[setting(default = "default")]
    pub unknown_name: UnknownName,
    /// The oldest version that is accepted.
    #[setting(default = "1.2")]
    min_version: Version,
    /// Certificates of clients.
    pub client_auth: Option<ClientAuthSettings>,
    /// Files with keys of session tickets, for machines that resume each other's sessions; at
    /// least 32 random bytes each, such as `openssl rand 80`. The first encrypts, all decrypt: to
    /// rotate, put a new one first and remove the last. Unless set, servers with one configuration
    /// in etcd share keys there, and other processes have random ones, replaced every six hours.
    #[setting(default = [], example = ["new.key", "old.key"])]
    ticket_keys: Vec<Spanned<String>>,
    /// Response to a plain HTTP request on this listener.
    #[setting(default = "reject")]
    pub plain_http: PlainHttp,
    /// An address, usually `:80`, that serves plain HTTP: every request gets 308 to the same URL
    /// with `https` and this listener's port. The challenge `http-01` is answered there.
    #[setting(example = ":80")]
    pub redirect_from: Option<Spanned<Address>>,
    /// Has browsers use https only: the header `Strict-Transport-Security` (RFC 6797) in responses
    /// over TLS that have none. `hsts: {}` is a year for this host.
    #[setting(example = {})]
    pub hsts: Option<Spanned<HstsSettings>>,
}

/// The header `Strict-Transport-Security`.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct HstsSettings {
    /// How long browsers use https only, from each response; `0s` ends it.
    #[setting(default = "365d", range = "0s"..="3650d")]
    max_age: Duration,
    /// Includes every subdomain.
    #[setting(default = false)]
    subdomains: bool,
    /// Agrees to inclusion in the preload lists of browsers, from which a removal takes months;
    /// needs `subdomains` and a `max_age` of at least a year.
    #[setting(default = false)]
    preload: bool,
}

/// The least `max_age` of preload lists.
const PRELOAD_AGE_MIN: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl HstsSettings {
    /// The value of the header.
    pub fn value(&self) -> String {
        let subdomains = if self.subdomains { "; includeSubDomains" } else { "" };
        let preload = if self.preload { "; preload" } else { "" };
        format!("max-age={}{subdomains}{preload}", self.max_age.as_secs())
    }
}

/// The response to a handshake without a server name, or with one that no certificate has.
#[derive(Clone, Copy, Debug, PartialEq, Setting)]
pub enum UnknownName {
    /// The first certificate.
    Default,
    /// A failed handshake.
    Reject,
}

/// Response to a plain HTTP request on a port for TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub enum PlainHttp {
    /// 400, and the connection is closed.
    Reject,
    /// 308 to the same address with `https`.
    Redirect,
}

/// What listeners use.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltTls {
    pub server: ServerTls,
    /// The certificate that is to be obtained.
    pub acme: Option<AcmePlan>,
}

/// Certificates of clients.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct ClientAuthSettings {
    /// The certificate authorities that issue them, a PEM file.
    #[setting(example = "clients.pem")]
    ca: Spanned<String>,
    /// Whether a client without a certificate is served.
    #[setting(default = "required")]
    pub mode: ClientAuthMode,
}

/// Whether clients must have a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Setting)]
pub enum ClientAuthMode {
    /// A client without a valid certificate is rejected.
    Required,
    /// A client may have none; one that is presented must be valid.
    Optional,
}

fn check_listener(settings: &ListenerTlsSettings, node: &Node, reader: &mut Reader<'_>) {
    if let Some(hsts) = &settings.hsts
        && hsts.preload
        && (!hsts.subdomains || hsts.max_age < PRELOAD_AGE_MIN)
    {
        reader
            .error(hsts.span, "preload lists accept only hosts with subdomains and a year")
            .help("write hsts: { max_age: 365d, subdomains: true, preload: true }");
    }
    // An entry with an error is reported where it stands.
    let written = node.get("certificates");
    let has_entries = written.is_some_and(|list| !list.list().is_some_and(<[_]>::is_empty));
    if settings.certificates.is_empty() && !has_entries && node.get("acme").is_none() {
        reader.error(written.unwrap_or(node).span, "no certificate").help(
            "write certificates: [{ cert: site.pem, key: site.key }], or start it with \
                 `tidegate up --dev-tls`",
        );
    }
}

impl ListenerTlsSettings {
    /// Reads the remaining files and makes what listeners use. `protocols` are those of ALPN,
    /// preferred ones first; `span` is where the settings stand.
    pub fn build(
        &self,
        protocols: &[&[u8]],
        span: Span,
        reader: &mut Reader<'_>,
    ) -> Option<BuiltTls> {
        let client_auth = match &self.client_auth {
            None => None,
            Some(auth) => Some(ClientAuth {
                authorities: read_file(&auth.ca, reader)?,
                required: auth.mode == ClientAuthMode::Required,
            }),
        };
        let mut ticket_keys = Vec::new();
        for path in &self.ticket_keys {
            let key = read_file(path, reader)?;
            if key.len() < TICKET_KEY_BYTES_MIN {
                let why = format!(
                    "{}: a key of session tickets has {TICKET_KEY_BYTES_MIN} bytes or more",
                    path.value
                );
                reader.error(path.span, why).help("make one with `openssl rand 80`");
                return None;
            }
            ticket_keys.push(key);
        }
        let mut certificates: Vec<_> =
            self.certificates.iter().map(|setting| setting.0.clone()).collect();
        let acme = match &self.acme {
            None => None,
            Some(acme) => {
                let (plan, stored) = acme.plan(span, reader)?;
                certificates.extend(stored);
                Some(plan)
            }
        };
        if certificates.is_empty() && acme.is_none() {
            return None;
        }
        let built = ServerTls::new(ServerOptions {
            certificates,
            answers_challenges: acme.is_some(),
            reject_unknown_names: self.unknown_name == UnknownName::Reject,
            min_version: self.min_version.into(),
            protocols: protocols.iter().map(|protocol| protocol.to_vec()).collect(),
            client_auth,
            ticket_keys,
        });
        built
            .map_err(|error| match &self.client_auth {
                Some(auth) => reader.error(auth.ca.span, format!("{}: {error}", auth.ca.value)),
                None => reader.error(span, error),
            })
            .ok()
            .map(|server| BuiltTls { server, acme })
    }
}
