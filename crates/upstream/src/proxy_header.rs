//! The PROXY header of connections to servers, where `send_proxy_protocol` is set.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http_client::ProxyHeader;
use message::Request;
use net::{Bind, Peer};
use wire::proxy_protocol::Endpoints;

use crate::settings::UpstreamSettings;
use crate::view::View;

/// The PROXY header with the client of a request; `None` if the upstream is configured without.
pub(crate) fn proxy_header(view: &View, request: &Request) -> Option<ProxyHeader> {
    let version = view.settings.send_proxy_protocol?.into();
    Some(ProxyHeader { version, endpoints: endpoints(request) })
}

/// The header of a connection that the server makes for itself, such as a health check.
pub(crate) fn own_header(settings: &UpstreamSettings) -> Option<ProxyHeader> {
    let version = settings.send_proxy_protocol?.into();
    Some(ProxyHeader { version, endpoints: None })
}

/// The client, and the address of the listener in the same family. The port of a client that a
/// trusted proxy names is not known, and 0. A client on a Unix socket has no address.
fn endpoints(request: &Request) -> Option<Endpoints> {
    let peer = match &request.facts.peer {
        Peer::Tcp(peer) => *peer,
        Peer::Unix if request.client_ip == request.facts.peer_ip() => return None,
        Peer::Unix => SocketAddr::new(request.client_ip, 0),
    };
    let is_peer = peer.ip().to_canonical() == request.client_ip;
    let source = SocketAddr::new(request.client_ip, if is_peer { peer.port() } else { 0 });
    let unspecified: IpAddr = match request.client_ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let destination = match &*request.facts.local {
        // A listener on all addresses has one of each family.
        Bind::Tcp(local) if local.ip().is_unspecified() => {
            SocketAddr::new(unspecified, local.port())
        }
        Bind::Tcp(local) => *local,
        Bind::Unix(_) => SocketAddr::new(unspecified, 0),
    };
    Some(Endpoints { source, destination })
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use message::{ConnectionFacts, Headers, Target};
    use wire::Method;

    use super::*;

    fn request(peer: Peer, local: Bind, client_ip: &str) -> Request {
        let target = Target::new(bytes::Bytes::from_static(b"/")).unwrap();
        let mut request = Request::made_up(Method::Get, target, Headers::new());
        let facts = ConnectionFacts { peer, local: Rc::new(local), ..ConnectionFacts::internal() };
        request.facts = Rc::new(facts);
        request.client_ip = client_ip.parse().unwrap();
        request
    }

    #[test]
    fn the_client_is_named_and_not_the_proxy_in_front() {
        let peer = || Peer::Tcp("[::ffff:10.0.0.1]:1234".parse().unwrap());
        let local = |text: &str| Bind::Tcp(text.parse().unwrap());
        let unix = || Bind::Unix("/run/a.sock".into());
        for (peer, local, client, expected) in [
            (peer(), local("10.0.0.9:80"), "10.0.0.1", Some(("10.0.0.1:1234", "10.0.0.9:80"))),
            (peer(), local("[::]:80"), "10.0.0.1", Some(("10.0.0.1:1234", "0.0.0.0:80"))),
            (peer(), local("10.0.0.9:80"), "192.0.2.7", Some(("192.0.2.7:0", "10.0.0.9:80"))),
            (Peer::Unix, unix(), "2001:db8::7", Some(("[2001:db8::7]:0", "[::]:0"))),
            (Peer::Unix, unix(), "127.0.0.1", None),
        ] {
            let named = endpoints(&request(peer, local, client));
            let expected = expected.map(|(source, destination)| Endpoints {
                source: source.parse().unwrap(),
                destination: destination.parse().unwrap(),
            });
            assert_eq!(named, expected, "{client}");
        }
    }
}
