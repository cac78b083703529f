//! The address of a server, with the protocol that it speaks.

use std::fmt;
use std::str::FromStr;

use net::tls::CertificateName;
use settings::{Address, Host, Node, Reader, Schema, SchemaBuilder, Setting};

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Setting)]
pub enum ServerProtocol {
    /// HTTP in the clear.
    Http,
    /// HTTP over TLS.
    Https,
    /// HTTP/2 in the clear, by prior knowledge (RFC 9113 3.3).
    H2c,
}

/// `127.0.0.1:9001`, `unix:/run/app.sock`, `https://app.internal`, `h2c://app.internal:9000` or
/// `h2c://unix:/run/app.sock`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerAddress {
    pub protocol: ServerProtocol,
    pub address: Address,
}

impl ServerAddress {
    /// True if the address names a host and a port, or a socket.
    pub fn is_connectable(&self) -> bool {
        let is_anywhere = matches!(self.address, Address::Tcp { host: Host::Any, .. });
        !is_anywhere && self.address.port() != Some(0)
    }

    /// The value of `Host` for this server. A Unix socket has no authority of its own.
    pub fn authority(&self) -> String {
        match (&self.address, self.protocol) {
            (Address::Unix(_), _) => "localhost".to_owned(),
            (Address::Tcp { host, port: 443 }, ServerProtocol::Https) => host.to_string(),
            (address, _) => address.to_string(),
        }
    }

    /// The name that its certificate must have.
    pub(crate) fn certificate_name(&self) -> Option<CertificateName> {
        match &self.address {
            Address::Tcp { host: Host::Name(name), .. } => CertificateName::new(name),
            Address::Tcp { host: Host::Ip(ip), .. } => CertificateName::new(&ip.to_string()),
            _ => None,
        }
    }
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(ServerAddress { protocol: ServerProtocol::Http, address: text.parse()? });
        };
        let (protocol, port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (ServerProtocol::Http, 80),
            "https" => (ServerProtocol::Https, 443),
            "h2c" => (ServerProtocol::H2c, 80),
            _ => return Err("has a scheme other than http, https and h2c".to_owned()),
        };
        if protocol == ServerProtocol::H2c && rest.starts_with("unix:") {
            return Ok(ServerAddress { protocol, address: rest.parse()? });
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !path.is_empty() || authority.contains(['?', '#', '@']) {
            return Err(
                "has more than a host and a port; the filter `rewrite` changes paths".into()
            );
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let address: Address = match has_port {
            true => authority.parse()?,
            false => format!("{authority}:{port}").parse()?,
        };
        Ok(ServerAddress { protocol, address })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            ServerProtocol::Http => self.address.fmt(f),
            ServerProtocol::Https => write!(f, "https://{}", self.authority()),
            ServerProtocol::H2c => write!(f, "h2c://{}", self.address),
        }
    }
}

impl Setting for ServerAddress {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("server address", "^(unix:.+|(https?|h2c)://.+|.*:[0-9]{1,5})$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let what =
            "an address such as 127.0.0.1:8080, https://host, h2c://host:8080 or unix:/run/x";
        let read: ServerAddress = reader.parse(node, what)?;
        Some(match read.address {
            Address::Unix(path) => {
                ServerAddress { address: Address::Unix(reader.resolve(node.span, &path)), ..read }
            }
            address => ServerAddress { address, ..read },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_protocol_and_its_default_port() {
        for (text, shown, authority) in [
            ("127.0.0.1:80", "127.0.0.1:80", "127.0.0.1:80"),
            ("http://App.internal", "app.internal:80", "app.internal:80"),
            ("HTTP://[::1]/", "[::1]:80", "[::1]:80"),
            ("https://app.internal", "https://app.internal", "app.internal"),
            ("https://app.internal:443/", "https://app.internal", "app.internal"),
            ("https://[::1]:8443", "https://[::1]:8443", "[::1]:8443"),
            ("h2c://app.internal:9000", "h2c://app.internal:9000", "app.internal:9000"),
            ("unix:/run/a.sock", "unix:/run/a.sock", "localhost"),
            ("h2c://unix:/run/a.sock", "h2c://unix:/run/a.sock", "localhost"),
        ] {
            let read: ServerAddress = text.parse().unwrap();
            assert_eq!((&*read.to_string(), &*read.authority()), (shown, authority));
            assert_eq!(read.to_string().parse(), Ok(read));
        }
    }

    #[test]
    fn what_is_not_a_server_is_rejected() {
        for (text, why) in [
            ("https://a/api", "more than a host and a port"),
            ("https://me@a", "more than a host and a port"),
            ("https://a:x", "no port between"),
            ("https://unix:/run/a.sock", "more than a host"),
            ("ftp://a", "a scheme other than"),
            ("a", "no port"),
        ] {
            let out = text.parse::<ServerAddress>().unwrap_err();
            assert!(out.contains(why), "{text}: {out}");
        }
    }
}
