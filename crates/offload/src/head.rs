//! The head of an exchange that leaves its worker: everything that applications read, by value.

use std::net::IpAddr;

use bytes::Bytes;
use net::tls::TlsInfo;
use net::{Bind, Peer};
use wire::{Method, Version};

use message::{Headers, Request, Scheme, Target};

/// A request without its body and without references to its worker. What no application reads,
/// such as the route, stays on the worker: another thread would free it, which costs more.
#[derive(Clone, Debug)]
pub struct Head {
    pub method: Method,
    pub version: Version,
    pub target: Target,
    pub headers: Headers,
    /// Length of the body, where it is known.
    pub body_length: Option<u64>,
    /// The client, and the scheme it used, after trusted proxies have been believed.
    pub client_ip: IpAddr,
    pub scheme: Scheme,
    /// The two ends of the connection.
    pub peer: Peer,
    pub local: Bind,
    pub tls: Option<TlsInfo>,
}

impl Head {
    pub(super) fn of(request: &Request, body_length: Option<u64>) -> Head {
        let facts = &request.facts;
        Head {
            method: match &request.method {
                Method::Other(name) => Method::Other(Bytes::copy_from_slice(name)),
                known => known.clone(),
            },
            version: request.version,
            target: request.target.clone(),
            headers: request.headers.clone(),
            body_length,
            client_ip: request.client_ip,
            scheme: request.scheme,
            peer: facts.peer.clone(),
            local: (*facts.local).clone(),
            tls: facts.tls.as_deref().cloned(),
        }
    }
}
