//! The PROXY protocol of a listener: connections of the listed proxies begin with a header that
//! names their client.

use std::time::Duration;

use message::ConnectionFacts;
use net::{Peer, ProxyHeaderError, Stream};
use telemetry::log::Level;
use telemetry::{CloseReason, LimitHit, WorkerMetrics, event_limited};

use crate::trusted_proxies::TrustedProxies;

/// The proxies that a listener accepts connections from.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyProtocol {
    pub from: TrustedProxies,
}

impl ProxyProtocol {
    /// Receives the header and notes the client as the peer of the connection. A connection of
    /// another peer, and one without a header, is to be closed: its address would be a guess.
    pub async fn receive(
        &self,
        stream: &Stream,
        facts: &mut ConnectionFacts,
        within: Duration,
        metrics: &WorkerMetrics,
    ) -> Result<(), CloseReason> {
        if !self.from.contains(facts.peer_ip()) {
            return Err(rejected(facts, CloseReason::ProxyUnknown, "not listed in `from`"));
        }
        match net::timer::within(within, stream.receive_proxy_header()).await {
            None => {
                metrics.hit(LimitHit::SlowHandshake);
                Err(CloseReason::HandshakeTimeout)
            }
            // Load balancers close the connection when they only check the port.
            Some(Err(ProxyHeaderError::Closed)) => Err(CloseReason::ClientClosed),
            Some(Err(ProxyHeaderError::Malformed(malformed))) => {
                Err(rejected(facts, CloseReason::ProxyHeader, malformed.as_str()))
            }
            Some(Ok(endpoints)) => {
                if let Some(endpoints) = endpoints {
                    facts.peer = Peer::Tcp(endpoints.source);
                }
                Ok(())
            }
        }
    }
}

fn rejected(facts: &ConnectionFacts, reason: CloseReason, error: &str) -> CloseReason {
    event_limited!(
        1,
        Level::Warn,
        "a connection of the PROXY protocol was rejected",
        listener = facts.listener,
        proxy = facts.peer_ip(),
        error = error
    );
    reason
}
