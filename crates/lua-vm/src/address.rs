//! Addresses as scripts write them: `host:port`, `[v6]:port`, `:port`, `unix:path`.
//!
//! Promises that malformed input is rejected and never guessed. Resolves nothing but `localhost`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use net::Bind;

/// Splits an address into host and port; either may be missing. A bare IPv6 address needs brackets.
pub fn split(text: &str) -> (Option<&str>, Option<&str>) {
    let some = |part: &'_ str| -> bool { !part.is_empty() };
    if let Some(rest) = text.strip_prefix('[') {
        let Some((host, rest)) = rest.split_once(']') else { return (None, None) };
        let port = rest.strip_prefix(':');
        return (Some(host).filter(|h| some(h)), port.filter(|p| some(p)));
    }
    match text.split_once(':') {
        Some((host, port)) => (Some(host).filter(|h| some(h)), Some(port).filter(|p| some(p))),
        None => (Some(text).filter(|h| some(h)), None),
    }
}

/// Parses an address to listen on; without a host it is every address of the machine.
pub fn bind(text: &str) -> Option<Bind> {
    if let Some(path) = text.strip_prefix("unix:") {
        return (!path.is_empty()).then(|| Bind::Unix(path.into()));
    }
    socket(text).map(Bind::Tcp)
}

/// Parses a numeric address or `localhost`; without a host the IPv6 wildcard, which takes IPv4 too.
pub fn socket(text: &str) -> Option<SocketAddr> {
    let (host, port) = split(text);
    let port = port?.parse().ok()?;
    let ip: IpAddr = match host {
        None => Ipv6Addr::UNSPECIFIED.into(),
        Some("localhost") => Ipv4Addr::LOCALHOST.into(),
        Some(host) => host.parse().ok()?,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::{socket, split};

    #[test]
    fn parts_of_addresses() {
        assert_eq!(split("a.example:80"), (Some("a.example"), Some("80")));
        assert_eq!(split("[::1]:80"), (Some("::1"), Some("80")));
        assert_eq!(split("[::1]"), (Some("::1"), None));
        assert_eq!(split(":80"), (None, Some("80")));
        assert_eq!(split("host"), (Some("host"), None));
        assert_eq!(split("[::1"), (None, None));
    }

    #[test]
    fn sockets() {
        assert_eq!(socket(":80"), "[::]:80".parse().ok());
        assert_eq!(socket("localhost:1"), "127.0.0.1:1".parse().ok());
        assert_eq!(socket("127.0.0.1:65536"), None);
        assert_eq!(socket("127.0.0.1"), None);
        assert_eq!(socket("name:80"), None);
    }
}
