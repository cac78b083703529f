//! A checked upstream: its settings, and what TLS to its servers needs.

use std::sync::Arc;

use http_client::{Destination, Endpoint, TlsIdentity};
use net::tls::{CertificateName, ClientTls};
use settings::{Reader, Spanned};
use tls_settings::UpstreamTlsSettings;

use crate::discover_settings::DiscoverSettings;
use crate::server_address::{ServerAddress, ServerProtocol};
use crate::settings::UpstreamSettings;

/// An upstream of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamPlan {
    pub settings: Arc<UpstreamSettings>,
    /// TLS to servers with `https://`.
    tls: Option<ClientTls>,
    /// The source of further servers.
    pub(crate) discover: Option<Arc<DiscoverPlan>>,
}

/// A source of servers, with what connections to it need.
#[derive(Debug, PartialEq)]
pub(crate) struct DiscoverPlan {
    pub(crate) settings: DiscoverSettings,
    /// TLS to the source, if it has any.
    pub(crate) tls: Option<ClientTls>,
    /// The name that its certificate must have, if one is set.
    pub(crate) server_name: Option<CertificateName>,
}

impl DiscoverPlan {
    fn new(
        settings: &DiscoverSettings,
        name: &Spanned<String>,
        reader: &mut Reader<'_>,
    ) -> Option<DiscoverPlan> {
        let used_tls = settings.source().and_then(|source| source.used_tls());
        let tls = match used_tls {
            Some(tls) => Some(UpstreamTlsSettings::client(tls, name.span, reader)?),
            None => None,
        };
        let server_name = used_tls.flatten().and_then(|tls| tls.server_name());
        Some(DiscoverPlan { settings: settings.clone(), tls, server_name })
    }
}

impl UpstreamPlan {
    /// Reads the files of TLS. Errors are reported at the file, or at the name of the upstream.
    pub fn new(
        name: &Spanned<String>,
        settings: UpstreamSettings,
        reader: &mut Reader<'_>,
    ) -> Option<UpstreamPlan> {
        let tls = match settings.uses_tls() {
            false => None,
            true => {
                let default = Spanned::new(UpstreamTlsSettings::default(), name.span);
                let tls = settings.tls.as_ref().unwrap_or(&default);
                let protocols: Vec<&[u8]> =
                    settings.protocols.iter().map(|protocol| protocol.alpn()).collect();
                Some(tls.build(&protocols, tls.span, reader)?)
            }
        };
        let discover = match &settings.discover {
            Some(discover) => Some(Arc::new(DiscoverPlan::new(discover, name, reader)?)),
            None => None,
        };
        Some(UpstreamPlan { settings: Arc::new(settings), tls, discover })
    }

    /// True if every certificate of its servers is accepted.
    pub(crate) fn is_unverified(&self) -> bool {
        self.settings.tls.as_ref().is_some_and(|tls| !tls.verifies())
    }

    /// The connection parameters of a server at an address.
    pub(crate) fn endpoint(&self, server: &ServerAddress, destination: Destination) -> Endpoint {
        let tls = self.tls.clone().filter(|_| server.protocol == ServerProtocol::Https);
        let set = self.settings.tls.as_ref().and_then(|tls| tls.server_name());
        let name = set.or_else(|| server.certificate_name());
        let identity = tls.zip(name).map(|(tls, name)| TlsIdentity { tls, name });
        let prior_knowledge = server.protocol == ServerProtocol::H2c;
        Endpoint { destination, tls: identity, prior_knowledge }
    }
}
