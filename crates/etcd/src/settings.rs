//! Where the members are and how they are reached.

use std::fmt;
use std::time::Duration;

use http_client::Url;
use net::tls::{CertificateName, ClientTls};

use crate::limits::ENDPOINTS;

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct EtcdSettings {
    /// The members, any of which serves a request.
    pub endpoints: Vec<Url>,
    /// Verification of members; `None` if none has TLS.
    pub tls: Option<ClientTls>,
    /// The name that their certificates must have; the host of each endpoint unless set.
    pub server_name: Option<CertificateName>,
    pub credentials: Option<Credentials>,
    /// Longest time for a connection to one address.
    pub connect: Duration,
    /// Longest time for a call, all its attempts included.
    pub timeout: Duration,
    /// Total attempts of a call; 1 disables retries.
    pub attempts: u32,
    /// The pause after each member has failed once, which doubles with each round.
    pub pause: Duration,
    /// A watch that was silent for this time requests a sign of life, and reconnects if none comes
    /// within the same time.
    pub silence: Duration,
    /// The longest message that is received, and the most events of one revision.
    pub message_bytes: usize,
}

impl EtcdSettings {
    pub fn new(endpoints: Vec<Url>) -> EtcdSettings {
        EtcdSettings {
            endpoints,
            tls: None,
            server_name: None,
            credentials: None,
            connect: Duration::from_secs(2),
            timeout: Duration::from_secs(5),
            attempts: 5,
            pause: Duration::from_millis(100),
            silence: Duration::from_secs(5),
            message_bytes: 64 * 1024 * 1024,
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.endpoints.is_empty() {
            return Err("etcd: no endpoint".to_owned());
        }
        if self.endpoints.len() > ENDPOINTS {
            return Err(format!("etcd: more than {ENDPOINTS} endpoints"));
        }
        Ok(())
    }
}

/// A user of etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Reads `HOST:PORT`, which has no TLS, or a URL of `http` or `https` without a path. The default
/// port is 2379.
pub fn parse_endpoint(text: &str) -> Result<Url, String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains('@') {
        return Err("an endpoint of etcd has no user: set `user` and `password`".to_owned());
    }
    if rest.contains(['/', '?', '#']) {
        return Err(format!("\"{text}\": an endpoint of etcd has no path"));
    }
    let has_port = rest.rsplit_once(':').is_some_and(|(host, port)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':')
    });
    let port = if has_port { "" } else { ":2379" };
    Url::parse(&format!("{scheme}://{rest}{port}"), "http", "https")
}

#[cfg(test)]
mod tests {
    use super::{Credentials, EtcdSettings, parse_endpoint};

    #[test]
    fn endpoints_have_a_default_scheme_and_port() {
        for (text, url) in [
            ("a", "http://a:2379/"),
            ("a:1", "http://a:1/"),
            ("http://a:1/", "http://a:1/"),
            ("https://a", "https://a:2379/"),
            ("[::1]", "http://[::1]:2379/"),
            ("[::1]:1", "http://[::1]:1/"),
        ] {
            assert_eq!(parse_endpoint(text).unwrap().to_string(), url);
        }
        for text in ["", "a/b", "a?b", "ftp://a", "u@a", "a b", "a:99999"] {
            assert!(parse_endpoint(text).is_err(), "{text}");
        }
        let why = parse_endpoint("u:secret@a/b").unwrap_err();
        assert_eq!(why, "an endpoint of etcd has no user: set `user` and `password`");
    }

    #[test]
    fn passwords_are_not_shown() {
        let mut settings = EtcdSettings::new(Vec::new());
        assert!(settings.check().is_err());
        settings.credentials =
            Some(Credentials { user: "ann".to_owned(), password: "secret".to_owned() });
        let shown = format!("{settings:?}");
        assert!(shown.contains("ann") && !shown.contains("secret"), "{shown}");
    }
}
