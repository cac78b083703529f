//! The address of a Redis server: `redis://HOST[:PORT]`, `rediss://` with TLS, or `unix:PATH`.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use net::{Resolver, Stream};
use settings::{Node, Reader, Schema, SchemaBuilder, Setting, nearest};
use wire::authority::Authority;

/// The port of a server.
const PORT: u16 = 6379;
const SCHEMES: [&str; 2] = ["redis", "rediss"];

/// Where a server or a Sentinel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisAddress {
    Tcp {
        /// An IPv6 address has no brackets here.
        host: String,
        /// Unless written, 6379, and for a Sentinel 26379.
        port: Option<u16>,
        is_secure: bool,
    },
    Unix(PathBuf),
}

impl RedisAddress {
    /// True if the connection has TLS.
    pub fn is_secure(&self) -> bool {
        matches!(self, RedisAddress::Tcp { is_secure: true, .. })
    }

    /// The same with a port.
    pub fn with_default_port(&self, default: u16) -> RedisAddress {
        match self {
            RedisAddress::Tcp { host, port, is_secure } => RedisAddress::Tcp {
                host: host.clone(),
                port: Some(port.unwrap_or(default)),
                is_secure: *is_secure,
            },
            RedisAddress::Unix(path) => RedisAddress::Unix(path.clone()),
        }
    }

    /// The same with its port, also where that is the usual one.
    pub fn with_port(&self) -> RedisAddress {
        self.with_default_port(PORT)
    }

    /// A server that another one has named, with TLS if the other one has it.
    pub fn named(host: &str, port: u16, is_secure: bool) -> RedisAddress {
        RedisAddress::Tcp { host: host.to_owned(), port: Some(port), is_secure }
    }

    /// Host and port; `None` for a Unix socket.
    pub fn host_and_port(&self) -> Option<(&str, u16)> {
        match self {
            RedisAddress::Tcp { host, port, .. } => Some((host, port.unwrap_or(PORT))),
            RedisAddress::Unix(_) => None,
        }
    }

    /// Connects to the first address of the host that accepts, without TLS.
    pub async fn connect(&self, names: &Resolver) -> io::Result<Stream> {
        let (host, port) = match self {
            RedisAddress::Unix(path) => return Stream::connect_unix(path).await,
            RedisAddress::Tcp { host, port, .. } => (host, port.unwrap_or(PORT)),
        };
        let resolved = names.resolve(host, port).await.map_err(io::Error::other)?;
        let mut last = Err(io::Error::other("the name has no address"));
        for one in resolved.addresses {
            last = Stream::connect_tcp(one).await;
            if last.is_ok() {
                break;
            }
        }
        last
    }
}

impl FromStr for RedisAddress {
    type Err = String;

    /// The error completes the sentence `"typed" …`.
    fn from_str(text: &str) -> Result<RedisAddress, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(RedisAddress::Unix(path.into())),
                false => Err("has no absolute path after unix:".to_owned()),
            };
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "redis" => false,
            "rediss" => true,
            other => {
                let meant = nearest(other, SCHEMES).unwrap_or("redis");
                return Err(format!("does not begin with redis:// or rediss://: write {meant}://"));
            }
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains('@') {
            let why = "holds a user: set `username` and `password` instead";
            return Err(why.to_owned());
        }
        if rest.contains(['/', '?', '#']) {
            return Err("holds more than host and port: set `database` instead".to_owned());
        }
        let parsed = Authority::parse(rest.as_bytes()).filter(|parsed| !parsed.host.is_empty());
        let parsed =
            parsed.ok_or_else(|| "holds no host such as redis.internal:6379".to_owned())?;
        let host = String::from_utf8_lossy(parsed.bare_host()).into_owned();
        Ok(RedisAddress::Tcp { host, port: parsed.port, is_secure })
    }
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedisAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            RedisAddress::Tcp { host, port, is_secure } => {
                f.write_str(SCHEMES[usize::from(*is_secure)])?;
                match host.contains(':') {
                    true => write!(f, "://[{host}]")?,
                    false => write!(f, "://{host}")?,
                }
                port.map_or(Ok(()), |port| write!(f, ":{port}"))
            }
        }
    }
}

impl Setting for RedisAddress {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("address of Redis", "^([Rr][Ee][Dd][Ii][Ss][Ss]?://|unix:/).+$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "an address such as redis://10.0.0.9:6379 or rediss://redis.internal")
    }
}

#[cfg(test)]
mod tests {
    use super::RedisAddress;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, shown, port) in [
            ("redis://a", "redis://a", 6379),
            ("REDIS://a:1/", "redis://a:1", 1),
            ("rediss://[::1]:7", "rediss://[::1]:7", 7),
            ("redis://[::1]", "redis://[::1]", 6379),
        ] {
            let address: RedisAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.host_and_port().unwrap().1, port, "{text}");
        }
        let unix: RedisAddress = "unix:/run/redis.sock".parse().unwrap();
        assert_eq!((unix.to_string().as_str(), unix.is_secure()), ("unix:/run/redis.sock", false));
        assert_eq!(unix.host_and_port(), None);
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, why) in [
            ("10.0.0.9", "write redis://"),
            ("redi://a", "write redis://"),
            ("redis://u:p@a", "set `username`"),
            ("redis://a/0", "set `database`"),
            ("redis://", "no host"),
            ("redis://a:99999", "no host"),
            ("unix:redis.sock", "no absolute path"),
        ] {
            let error = text.parse::<RedisAddress>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
