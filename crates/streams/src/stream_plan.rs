//! A stream as the configuration declares it, checked.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use http_server::ProxyProtocol;
use net::tls::ServerTls;
use settings::{Cidr, Rate, any_contains};
use tls_settings::AcmePlan;
use wire::client_hello::ClientHello;

/// One stream.
#[derive(Debug)]
pub struct StreamPlan {
    pub name: String,
    pub choice: UpstreamChoice,
    /// TLS that ends here; what the upstream receives is in the clear.
    pub tls: Option<ServerTls>,
    /// The certificate to obtain from a certificate authority.
    pub acme: Option<AcmePlan>,
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Clients that may connect; all if it is empty.
    pub allow: Vec<Cidr>,
    /// Clients that may not, whatever `allow` says.
    pub deny: Vec<Cidr>,
    /// Connections of one client address at the same time, over all workers.
    pub connections_per_client: Option<u32>,
    /// How often a client address may connect, over all workers.
    pub connection_rate_per_client: Option<Rate>,
    /// For a PROXY header, a ClientHello and a TLS handshake, each.
    pub handshake: Duration,
    /// Overrides the upstream's.
    pub idle: Option<Duration>,
}

/// How the upstream of a connection is chosen.
#[derive(Debug)]
pub enum UpstreamChoice {
    Always(String),
    /// By the ClientHello, which is passed on.
    ByHello(HelloChoice),
}

/// Upstreams by the ClientHello of TLS.
#[derive(Debug, Default)]
pub struct HelloChoice {
    /// By a protocol that the client offers.
    pub protocols: BTreeMap<String, String>,
    /// For clients that offer none of these.
    pub names: ServerNames,
}

impl HelloChoice {
    /// The upstream of a client; of several protocols that are listed, the client's first counts.
    pub fn find(&self, hello: &ClientHello) -> Option<&str> {
        let mut offered = hello.protocols.iter().filter_map(|name| std::str::from_utf8(name).ok());
        let by_protocol = offered.find_map(|name| self.protocols.get(name));
        by_protocol.map(String::as_str).or_else(|| self.names.find(hello.server_name.as_deref()))
    }
}

/// Upstreams by the server names of TLS.
#[derive(Debug, Default)]
pub struct ServerNames {
    exact: BTreeMap<String, String>,
    /// By what follows the star, such as `.example.com`; the longest first.
    suffixes: Vec<(String, String)>,
    /// For other names, and for clients that send none.
    default: Option<String>,
}

impl ServerNames {
    /// Adds a name, `*.` and a name, or `*`; false if the pattern is none of these or is there
    /// already.
    pub fn add(&mut self, pattern: &str, upstream: &str) -> bool {
        let (pattern, upstream) = (pattern.to_ascii_lowercase(), upstream.to_owned());
        let is_name = |name: &str| {
            let of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !name.is_empty() && !name.starts_with('.') && name.bytes().all(of_host)
        };
        if pattern == "*" {
            return self.default.replace(upstream).is_none();
        }
        if let Some(suffix) = pattern.strip_prefix('*') {
            let is_new = self.suffixes.iter().all(|(known, _)| known != suffix);
            let is_pattern = suffix.strip_prefix('.').is_some_and(is_name);
            self.suffixes.push((suffix.to_owned(), upstream));
            self.suffixes.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
            return is_pattern && is_new;
        }
        is_name(&pattern) && self.exact.insert(pattern, upstream).is_none()
    }

    /// The upstream for the name that a client sends, in lower case.
    pub fn find(&self, name: Option<&str>) -> Option<&str> {
        let listed = name.and_then(|name| {
            let by_suffix = || {
                let below = |(suffix, _): &&(String, String)| name.ends_with(suffix.as_str());
                self.suffixes.iter().find(below).map(|(_, upstream)| upstream)
            };
            self.exact.get(name).or_else(by_suffix)
        });
        listed.or(self.default.as_ref()).map(String::as_str)
    }

    fn upstreams(&self) -> impl Iterator<Item = &str> {
        let suffixes = self.suffixes.iter().map(|(_, upstream)| upstream);
        self.exact.values().chain(suffixes).chain(&self.default).map(String::as_str)
    }
}

impl StreamPlan {
    /// Upstreams that connections may be passed to.
    pub fn upstreams(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match &self.choice {
            UpstreamChoice::Always(upstream) => Box::new(std::iter::once(upstream.as_str())),
            UpstreamChoice::ByHello(choice) => {
                let by_protocol = choice.protocols.values().map(String::as_str);
                Box::new(choice.names.upstreams().chain(by_protocol))
            }
        }
    }

    pub(crate) fn allows(&self, client: IpAddr) -> bool {
        let is_allowed = self.allow.is_empty() || any_contains(&self.allow, client);
        is_allowed && !any_contains(&self.deny, client)
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientHello, HelloChoice, ServerNames};

    #[test]
    fn the_first_listed_protocol_of_the_client_wins_over_its_name() {
        let mut choice = HelloChoice::default();
        for protocol in ["h2", "imap"] {
            choice.protocols.insert(protocol.into(), protocol.into());
        }
        assert!(choice.names.add("a.test", "named"));
        for (offered, name, upstream) in [
            (&[&b"imap"[..], b"h2"][..], Some("a.test"), Some("imap")),
            (&[b"\xff", b"http/1.1", b"h2"], None, Some("h2")),
            (&[b"http/1.1"], Some("a.test"), Some("named")),
            (&[], Some("b.test"), None),
        ] {
            let protocols = offered.iter().map(|name| (*name).into()).collect();
            let hello = ClientHello { server_name: name.map(Into::into), protocols };
            assert_eq!(choice.find(&hello), upstream, "{hello:?}");
        }
    }

    #[test]
    fn the_most_exact_name_wins() {
        let mut names = ServerNames::default();
        for (pattern, upstream) in
            [("*.Example.com", "below"), ("a.example.com", "a"), ("*.b.example.com", "b")]
        {
            assert!(names.add(pattern, upstream), "{pattern}");
        }
        for (name, upstream) in [
            (Some("a.example.com"), Some("a")),
            (Some("c.example.com"), Some("below")),
            (Some("x.b.example.com"), Some("b")),
            (Some("b.example.com"), Some("below")),
            (Some("example.com"), None),
            (Some("other.org"), None),
            (None, None),
        ] {
            assert_eq!(names.find(name), upstream, "{name:?}");
        }
        assert!(names.add("*", "rest"));
        assert_eq!(names.find(Some("other.org")), Some("rest"));
        assert_eq!(names.find(None), Some("rest"));
    }

    #[test]
    fn what_is_not_a_pattern_or_repeated_is_rejected() {
        let mut names = ServerNames::default();
        assert!(names.add("a.test", "u") && names.add("*.test", "u") && names.add("*", "u"));
        for pattern in ["A.test", "*.TEST", "*", "", "*a", "*.", "*.*", "a b", ".test", "a/b"] {
            assert!(!names.add(pattern, "u"), "{pattern:?}");
        }
    }
}
