//! `tls` of upstreams and of other servers that requests go to: what servers have to prove, and
//! what is presented to them.

use net::tls::{CertificateName, ClientOptions, ClientTls};
use settings::{Node, Reader, Setting, Span, Spanned};

use crate::certificate::{CertificateSetting, Version, read_file};

/// TLS to servers whose addresses begin with `https://`.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(default, check = check_upstream_tls)]
pub struct UpstreamTlsSettings {
    /// The certificate authorities that issue the servers' certificates, a PEM file; those of the
    /// system unless set.
    #[setting(example = "internal.pem")]
    ca: Option<Spanned<String>>,
    /// The name that the certificates must have, also sent as SNI; the host of each server unless
    /// set.
    #[setting(example = "api.internal")]
    server_name: Option<String>,
    /// The certificate that is presented to servers that request one.
    certificate: Option<CertificateSetting>,
    /// The oldest version that is accepted.
    #[setting(default = "1.2")]
    min_version: Version,
    /// False accepts every certificate, so that a server in between can read and change what is
    /// sent. For tests only; with an authority of your own, set `ca` instead.
    #[setting(default = true)]
    verify: bool,
}

fn check_upstream_tls(settings: &UpstreamTlsSettings, node: &Node, reader: &mut Reader<'_>) {
    let place = |key| node.get(key).map_or(node.span, |value| value.span);
    if settings.server_name.as_ref().is_some_and(|name| CertificateName::new(name).is_none()) {
        reader.error(place("server_name"), "not a DNS name or an IP address");
    }
    if let (Some(ca), false) = (&settings.ca, settings.verify) {
        reader.error(ca.span, "`ca` has no effect with `verify: false`");
    }
}

impl UpstreamTlsSettings {
    /// TLS to the servers of URLs over HTTP/1.1: by these settings, or with the certificate
    /// authorities of the system.
    pub fn client(
        settings: Option<&Spanned<UpstreamTlsSettings>>,
        span: Span,
        reader: &mut Reader<'_>,
    ) -> Option<ClientTls> {
        let default = Spanned::new(UpstreamTlsSettings::default(), span);
        let settings = settings.unwrap_or(&default);
        settings.build(&[b"http/1.1"], settings.span, reader)
    }

    /// Reads the remaining files and makes what connections use. `protocols` are those of ALPN,
    /// preferred ones first; `span` is where an error stands that concerns no file.
    pub fn build(
        &self,
        protocols: &[&[u8]],
        span: Span,
        reader: &mut Reader<'_>,
    ) -> Option<ClientTls> {
        let authorities = match &self.ca {
            Some(path) => Some(read_file(path, reader)?),
            None => None,
        };
        let built = ClientTls::new(ClientOptions {
            authorities,
            verify: self.verify,
            certificate: self.certificate.as_ref().map(|setting| setting.0.clone()),
            min_version: self.min_version.into(),
            protocols: protocols.iter().map(|protocol| protocol.to_vec()).collect(),
        });
        built
            .map_err(|error| match &self.ca {
                Some(path) => reader.error(path.span, format!("{}: {error}", path.value)),
                None => reader.error(span, error),
            })
            .ok()
    }

    /// The name that every server's certificate must have, if one is set.
    pub fn server_name(&self) -> Option<CertificateName> {
        CertificateName::new(self.server_name.as_deref()?)
    }

    /// False if every certificate is accepted.
    pub fn verifies(&self) -> bool {
        self.verify
    }
}
