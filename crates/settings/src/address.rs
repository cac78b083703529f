//! Where to listen or to connect: `127.0.0.1:9001`, `[::1]:80`, `:8080`, `host:port`,
//! `unix:/run/x.sock`.
//!
//! Never does: resolving names or opening anything (that is `net`).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use crate::{Node, Reader, Schema, SchemaBuilder, Setting};

/// A place in the network or a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    Tcp { host: Host, port: u16 },
    Unix(PathBuf),
}

/// The host of an [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// `:8080`: all addresses of this machine.
    Any,
    Ip(IpAddr),
    /// A name to be resolved, in lower case.
    Name(String),
}

impl Address {
    /// The socket address, where no name has to be resolved; `:8080` is `[::]:8080`.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        match self {
            Address::Tcp { host: Host::Ip(ip), port } => Some(SocketAddr::new(*ip, *port)),
            Address::Tcp { host: Host::Any, port } => {
                Some(SocketAddr::new(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), *port))
            }
            _ => None,
        }
    }

    pub fn port(&self) -> Option<u16> {
        match self {
            Address::Tcp { port, .. } => Some(*port),
            Address::Unix(_) => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(addr: SocketAddr) -> Self {
        Address::Tcp { host: Host::Ip(addr.ip()), port: addr.port() }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("names no path".into()),
                // sun_path holds 108 bytes with its end (unix(7)).
                path if path.len() > 107 => {
                    Err("is longer than a Unix socket's path may be (107)".into())
                }
                path => Ok(Address::Unix(PathBuf::from(path))),
            };
        }
        if text.contains("://") {
            return Err("is a URL, an address has no scheme".into());
        }
        if text.parse::<u16>().is_ok() {
            return Err(format!("is a port without a host: write 127.0.0.1:{text} or :{text}"));
        }
        if text.parse::<IpAddr>().is_ok() {
            return Err(match text.contains(':') {
                true => format!("has no port: write [{text}]:80"),
                false => format!("has no port: write {text}:80"),
            });
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(format!("has no port: write {text}:80"));
        };
        let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        let port = port.parse().ok().filter(|_| digits);
        let port = port.ok_or("has no port between 0 and 65535 after the colon")?;
        Ok(Address::Tcp { host: host.parse()?, port })
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Host::Any);
        }
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return inner
                .parse()
                .map(|ip| Host::Ip(IpAddr::V6(ip)))
                .map_err(|_| "has no IPv6 address between the brackets".to_owned());
        }
        if let Ok(ip) = text.parse() {
            return match ip {
                IpAddr::V4(_) => Ok(Host::Ip(ip)),
                IpAddr::V6(_) => Err("has an IPv6 address, which needs brackets".to_owned()),
            };
        }
        host_name(text).map(Host::Name).ok_or_else(|| "has no valid host name".to_owned())
    }
}

/// RFC 1123 2.1 names, and the underscore that container networks use.
fn host_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A text that resembles an IPv4 address is an invalid one: `10.0.0.300`, `127.1`.
    let last = name.rsplit('.').next()?;
    let numeric = last.bytes().all(|b| b.is_ascii_digit());
    (name.len() <= 253 && !numeric && name.split('.').all(label)).then(|| name.to_ascii_lowercase())
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Any => Ok(()),
            Host::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            Host::Ip(IpAddr::V4(ip)) => ip.fmt(f),
            Host::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Setting for Address {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("address", r"^(unix:.+|.*:[0-9]{1,5})$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let what =
            "an address such as 127.0.0.1:8080, [::1]:8080, :8080, host:8080 or unix:/run/x.sock";
        Some(match reader.parse(node, what)? {
            Address::Unix(path) => Address::Unix(reader.resolve(node.span, &path)),
            tcp => tcp,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Address;
    use crate::{node, read};

    #[test]
    fn reads_and_shows() {
        for (text, addr) in [
            ("127.0.0.1:9001", Some("127.0.0.1:9001")),
            ("[::1]:80", Some("[::1]:80")),
            (":8080", Some("[::]:8080")),
            ("shop.example.com:443", None),
            ("db_1:5432", None),
            ("unix:/run/x.sock", None),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.socket_addr().map(|a| a.to_string()).as_deref(), addr);
        }
        assert_eq!("Shop.Example.:80".parse::<Address>().unwrap().to_string(), "shop.example:80");
    }

    #[test]
    fn refuses_with_a_reason() {
        let long = format!("unix:/{}", "x".repeat(200));
        for (text, why) in [
            ("127.0.0.1", "has no port: write 127.0.0.1:80"),
            ("8080", "is a port without a host: write 127.0.0.1:8080 or :8080"),
            ("::1", "has no port: write [::1]:80"),
            ("::1:80", "has no port"),
            ("localhost", "has no port: write localhost:80"),
            ("localhost:http", "no port between"),
            ("localhost:99999", "no port between"),
            ("localhost:+80", "no port between"),
            ("http://a:80", "is a URL"),
            ("a b:80", "no valid host name"),
            ("10.0.0.300:80", "no valid host name"),
            ("fe80::1::2:80", "no valid host name"),
            ("2001:db8::1:8080", "has no port"),
            ("[1.2.3.4]:80", "IPv6 address between the brackets"),
            ("unix:", "names no path"),
            (long.as_str(), "longer than"),
        ] {
            let out = read::<Address>(&node!(text)).unwrap_err();
            assert!(out.contains(why), "{text}: {out}");
        }
    }
}
