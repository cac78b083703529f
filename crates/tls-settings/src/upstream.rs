//! `upstreams.NAME.tls`: how servers prove who they are, and what is presented to them.

use net::tls::{CertificateName, ClientOptions, ClientTls};
use settings::{Reader, Setting, Span, Spanned};

use crate::certificate::{CertificateSetting, Version, read_file};

/// TLS to the servers of an upstream: to those whose address begins with `https://`.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(default)]
pub struct UpstreamTlsSettings {
    /// The certificate authorities that issue the servers' certificates, a PEM file; those of the
    /// system unless set.
    #[setting(example = "internal.pem")]
    ca: Option<Spanned<String>>,
    /// The name that the certificates must have, also sent as SNI; the server's own name or address
    /// unless set.
    #[setting(example = "api.internal")]
    server_name: Option<Spanned<String>>,
    /// A certificate of our own, for servers that ask for one.
    certificate: Option<CertificateSetting>,
    /// The oldest version that is accepted.
    #[setting(default = "1.2")]
    min_version: Version,
}

impl UpstreamTlsSettings {
    /// Reads the remaining files and makes what connections use. `protocols` are those of ALPN;
    /// `span` is where the settings stand.
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
    pub fn server_name(&self, reader: &mut Reader<'_>) -> Option<CertificateName> {
        let written = self.server_name.as_ref()?;
        let name = CertificateName::new(&written.value);
        if name.is_none() {
            reader.error(written.span, "not a DNS name or an IP address");
        }
        name
    }
}
