//! `proxy_protocol`: proxies that connect to a listener for their clients.

use http_server::{ProxyProtocol, TrustedProxies};
use settings::{Cidr, Node, Reader, Setting};

/// The PROXY protocol, version 1 or 2: every connection begins with a header that names the client.
/// Its address is used wherever the client's is: limits, logs, conditions, forwarding headers.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_from)]
pub struct ProxyProtocolSettings {
    /// The proxies. A connection from any other address is closed, and so is one without a valid
    /// header, within `timeouts.handshake`. A Unix socket counts as 127.0.0.1.
    #[setting(example = ["10.0.0.0/8"])]
    pub from: Vec<Cidr>,
}

impl ProxyProtocolSettings {
    /// What listeners and streams use.
    pub(crate) fn build(&self) -> ProxyProtocol {
        ProxyProtocol { from: TrustedProxies::new(self.from.iter().map(Cidr::net)) }
    }
}

fn check_from(settings: &ProxyProtocolSettings, node: &Node, reader: &mut Reader<'_>) {
    if settings.from.is_empty() {
        let place = node.get("from").unwrap_or(node);
        reader
            .error(place.span, "no proxy is listed: every connection would be closed")
            .help("list the addresses of the proxies: from: [10.0.0.0/8]");
    }
}

#[cfg(test)]
mod tests {
    use settings::{node, read};

    use super::ProxyProtocolSettings;

    #[test]
    fn proxies_must_be_listed() {
        let out = read::<ProxyProtocolSettings>(&node!({ "from": [] })).unwrap_err();
        assert!(out.contains("no proxy is listed"), "{out}");
        read::<ProxyProtocolSettings>(&node!({ "from": ["10.0.0.0/8", "::1"] })).unwrap();
    }
}
