//! Builds a [`Request`] from parsed request headers: target, body, and the address of the client.

use std::net::IpAddr;
use std::rc::Rc;

use wire::forwarded::{Element, Node, parse_forwarded, x_forwarded_for};
use wire::h1::{RequestHead, TargetForm};
use wire::target::PathFault;
use wire::{IpText, Known, Method, alias, token};

use crate::listener_snapshot::ListenerSnapshot;
use crate::trusted_proxies::TrustedProxies;
use message::{ConnectionFacts, Scheme};
use message::{Fault, FaultKind, Headers, Request, Target};

/// Fields that Connection may name: each is looked for among all that there are.
const NAMED_MAX: usize = 64;

/// Builds the request. Its body is added later, because its limits are the route's.
pub(crate) fn request(
    head: RequestHead,
    mut headers: Headers,
    facts: &Rc<ConnectionFacts>,
    snapshot: &ListenerSnapshot,
) -> Result<Box<Request>, Fault> {
    let mut request = Request::blank();
    target(headers.text(), &head, &mut request.target)
        .map_err(|fault| Fault::new(FaultKind::InvalidTarget, fault.as_str()).closing())?;
    let authority = match head.form {
        TargetForm::Absolute | TargetForm::Authority => {
            head.authority.map(|span| span.of(headers.text()).to_vec())
        }
        _ => None,
    };
    if let Some(authority) = authority {
        // RFC 9112 3.2.2: the target's authority replaces the received Host.
        headers.set(Known::Host, &authority);
    }
    if head.names_fields {
        drop_named_by_connection(&mut headers)?;
    }
    let mut client_ip = facts.peer_ip();
    let mut scheme = facts.scheme();
    if head.forwarding {
        let trusted = snapshot.trusted_proxies.contains(client_ip);
        drop_forwarding(&mut headers, trusted);
        if trusted {
            let (client, hops) = believed_client(&headers, client_ip, &snapshot.trusted_proxies);
            scheme = believed_scheme(&headers, hops).unwrap_or(scheme);
            // Upstreams and applications look for the client here, where this server adds itself.
            if client != client_ip && !headers.contains(Known::XForwardedFor) {
                headers.append(Known::XForwardedFor, IpText::new(client).as_bytes());
            }
            client_ip = client;
        }
    }
    request.method = head.method;
    request.version = head.version;
    request.headers = headers;
    request.facts = facts.clone();
    request.client_ip = client_ip;
    request.countries = snapshot.countries.clone();
    request.scheme = scheme;
    // Requests in a tunnel of HTTP/2 would pass by every filter. RFC 9113 3.1 has no such upgrade
    // any more, and one may always be ignored (RFC 9110 7.8).
    request.upgrade = head.upgrade && !request.headers.lists_token(Known::Upgrade, "h2c");
    request.began_us = net::clock::now_us();
    Ok(request)
}

/// Removes what only a trusted proxy may state; of such a proxy, only unusual spellings, which it
/// may have let through, and `Proxy`, which no proxy sends: CGI programs take it for the setting
/// HTTP_PROXY (CVE-2016-5385 and others, "httpoxy").
#[cold]
fn drop_forwarding(headers: &mut Headers, trusted: bool) {
    headers.retain(|field| {
        let may_stay = trusted && field.known != Some(Known::Proxy) && alias::is_plain(field.name);
        may_stay || !field.is_forwarding()
    });
}

/// Removes the fields that Connection names, which are meant for this connection only (RFC 9110
/// 7.6.1). This happens before the filters run: later a field of the client could not be
/// distinguished from one that a filter has set, and clients must not remove those.
fn drop_named_by_connection(headers: &mut Headers) -> Result<(), Fault> {
    let is_option = |option: &[u8]| {
        let own = [&b"keep-alive"[..], b"close", b"upgrade", b"te"];
        own.iter().any(|known| option.eq_ignore_ascii_case(known))
    };
    let listed = || headers.get_all(Known::Connection).flat_map(token::list);
    if listed().filter(|option| !is_option(option)).nth(NAMED_MAX).is_some() {
        let detail = "Connection names too many fields";
        return Err(Fault::new(FaultKind::TooManyFields, detail).closing());
    }
    let (options, named): (Vec<_>, Vec<_>) =
        listed().map(<[u8]>::to_vec).partition(|option| is_option(option));
    headers.retain(|field| match field.known {
        // The recipient, the length and the origin of a message are not options.
        Some(Known::Host | Known::ContentLength | Known::TransferEncoding | Known::Expect) => true,
        _ if field.is_forwarding() => true,
        _ => !named.iter().any(|name| alias::same(name, field.name)),
    });
    headers.remove(Known::Connection);
    if !options.is_empty() {
        headers.append(Known::Connection, options.join(&b", "[..]));
    }
    Ok(())
}

fn target(bytes: &[u8], head: &RequestHead, target: &mut Target) -> Result<(), PathFault> {
    match head.form {
        TargetForm::Origin => target.assign(head.target.of(bytes), head.path.len as usize),
        TargetForm::Asterisk => {
            *target = Target::asterisk();
            Ok(())
        }
        TargetForm::Authority => {
            *target = Target::authority(head.target.of(bytes));
            Ok(())
        }
        TargetForm::Absolute => {
            if head.method == Method::Options && head.path.len == 0 && head.query.is_none() {
                *target = Target::whole_server();
                return Ok(());
            }
            let path = head.path_bytes(bytes);
            let mut raw = Vec::with_capacity(head.target.len as usize + 1);
            raw.extend_from_slice(path);
            if let Some(query) = head.query {
                raw.push(b'?');
                raw.extend_from_slice(query.of(bytes));
            }
            target.assign(&raw, path.len())
        }
    }
}

/// Reads the list of forwarders from the nearest outwards; the first that is not trusted is the
/// client. Without a readable list it is the peer. Second, how many proxies were believed behind
/// the nearest.
fn believed_client(headers: &Headers, peer: IpAddr, trusted: &TrustedProxies) -> (IpAddr, usize) {
    let (mut client, mut hops) = (peer, 0);
    for (hop, node) in forwarders(headers).into_iter().enumerate() {
        let Some(address) = node else { break };
        (client, hops) = (address.to_canonical(), hop);
        if !trusted.contains(client) {
            break;
        }
    }
    (client, hops)
}

/// Returns the proxies of a request, the nearest first: from X-Forwarded-For, else from Forwarded
/// (RFC 7239). Most proxies write only the first and pass the other on unchanged: `Forwarded` is
/// ignored when `X-Forwarded-For` is present.
fn forwarders(headers: &Headers) -> Vec<Option<IpAddr>> {
    if headers.contains(Known::XForwardedFor) {
        let values: Vec<_> = headers.get_all(Known::XForwardedFor).collect();
        return values.into_iter().rev().flat_map(x_forwarded_for).collect();
    }
    let elements = forwarded(headers).unwrap_or_default();
    let nodes = elements.iter().rev().map(|element| element.for_node.as_ref().and_then(Node::ip));
    nodes.collect()
}

/// The elements of Forwarded, in order; `None` where it cannot be read.
fn forwarded(headers: &Headers) -> Option<Vec<Element>> {
    let mut elements = Vec::new();
    for value in headers.get_all(Known::Forwarded) {
        elements.extend(parse_forwarded(value)?);
    }
    Some(elements)
}

/// Returns the scheme that the outermost trusted proxy reported. Proxies that append to the field
/// do so in order; one that replaces it speaks for all before it. Forwarded is used only if neither
/// of the older fields is present, as for the client's address ([`forwarders`]).
fn believed_scheme(headers: &Headers, hops: usize) -> Option<Scheme> {
    let of_hop = |listed: usize| listed.saturating_sub(hops + 1);
    if headers.contains(Known::XForwardedProto) {
        let listed = || headers.get_all(Known::XForwardedProto).flat_map(token::list);
        return scheme_named(listed().nth(of_hop(listed().count()))?);
    }
    if headers.contains(Known::XForwardedFor) {
        return None;
    }
    let elements = forwarded(headers)?;
    scheme_named(elements.get(of_hop(elements.len()))?.proto.as_deref()?)
}

fn scheme_named(name: &[u8]) -> Option<Scheme> {
    if name.eq_ignore_ascii_case(b"https") {
        Some(Scheme::Https)
    } else if name.eq_ignore_ascii_case(b"http") {
        Some(Scheme::Http)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(names: usize) -> Headers {
        let mut headers = Headers::new();
        headers.append(Known::Connection, format!("close{}", ", x-a".repeat(names)));
        headers.append("x-a", "1");
        headers.append("x-b", "1");
        headers
    }

    #[test]
    fn connection_may_name_some_fields_and_not_any_number() {
        let mut some = headers(NAMED_MAX);
        assert!(drop_named_by_connection(&mut some).is_ok());
        assert_eq!(some.get(Known::Connection), Some(&b"close"[..]));
        assert!(!some.contains("x-a") && some.contains("x-b"));
        let fault = drop_named_by_connection(&mut headers(NAMED_MAX + 1)).unwrap_err();
        assert_eq!((fault.status, fault.close), (431, true));
    }

    #[test]
    fn forwarded_says_the_scheme_where_the_older_fields_do_not() {
        // (fields, hops, what is believed)
        let table = [
            (vec![("forwarded", "for=1.2.3.4;proto=https")], 0, Some(Scheme::Https)),
            (vec![("forwarded", "for=1.2.3.4;proto=HTTP")], 0, Some(Scheme::Http)),
            (vec![("forwarded", "for=1.2.3.4;proto=gopher")], 0, None),
            (vec![("forwarded", "for=1.2.3.4")], 0, None),
            (vec![("forwarded", "proto=https, for=1.1.1.1;proto=http")], 0, Some(Scheme::Http)),
            (vec![("forwarded", "proto=https, for=1.1.1.1;proto=http")], 1, Some(Scheme::Https)),
            (
                vec![("forwarded", "proto=https"), ("forwarded", "proto=http")],
                1,
                Some(Scheme::Https),
            ),
            (vec![("forwarded", "proto=\"")], 0, None),
            // Ignored next to the older fields.
            (
                vec![("forwarded", "proto=https"), ("x-forwarded-proto", "http")],
                0,
                Some(Scheme::Http),
            ),
            (vec![("forwarded", "proto=https"), ("x-forwarded-for", "1.1.1.1")], 0, None),
        ];
        for (fields, hops, believed) in table {
            let mut headers = Headers::new();
            for (name, value) in &fields {
                headers.append(*name, value);
            }
            assert_eq!(believed_scheme(&headers, hops), believed, "{fields:?}");
        }
    }
}
