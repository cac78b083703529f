//! The head of an exchange that leaves its worker: everything by value.

use std::net::IpAddr;

use bytes::Bytes;
use net::tls::TlsInfo;
use net::{Bind, Peer};
use wire::{Method, Version};

use message::{Headers, Request, Scheme, Target};

/// Everything about a request except its body, without references to its worker.
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
    /// The name of the listener.
    pub listener: Box<str>,
    /// The name of the route.
    pub route: Option<Box<str>>,
    /// Names and values of the route's path parameters.
    pub params: Vec<(Box<str>, Box<str>)>,
    pub request_id: Option<Box<str>>,
    pub consumer: Option<Box<str>>,
}

impl Head {
    pub(super) fn of(request: &Request, body_length: Option<u64>) -> Head {
        let facts = &request.facts;
        let path = request.target.routed_path();
        let value = |name: &str| request.params.get(path, name).unwrap_or_default().into();
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
            listener: (*facts.listener).into(),
            route: request.route.as_ref().map(|route| (*route.name).into()),
            params: request.params.names().map(|name| (name.into(), value(name))).collect(),
            request_id: request.request_id.clone(),
            consumer: request.consumer_name().map(Box::from),
        }
    }
}
