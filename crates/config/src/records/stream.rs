//! `streams`: connections that are passed to an upstream byte by byte (layer 4).

use settings::{Address, Cidr, Duration, Named, Node, Rate, Reader, Setting, Spanned};
use tls_settings::{ListenerTlsSettings, PlainHttp};

use super::ProxyProtocolSettings;

/// A port whose connections, or sessions of UDP, are passed to an upstream, in any protocol. The
/// upstream's balancing, health checks, ejection, `max_connections` and `timeouts.connect` apply,
/// and its retries, while no server has accepted the connection.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_stream)]
pub struct StreamSettings {
    /// Its name in logs and metrics; unless set, `stream-1` for the first, and so on.
    #[setting(example = "postgres")]
    pub name: Option<Spanned<String>>,
    /// The address, as that of a listener.
    #[setting(example = ":5432")]
    pub bind: Spanned<Address>,
    /// The transport protocol.
    #[setting(default = "tcp")]
    pub protocol: StreamProtocol,
    /// The upstream.
    #[setting(example = "postgres")]
    pub upstream: Option<Spanned<String>>,
    /// Upstreams by the server name in the TLS ClientHello (SNI), in place of `upstream`. TLS is
    /// passed through. Keys are names, `*.example.com` for every name below it, and `*` for other
    /// names and clients that send none; without `*` these are closed.
    #[setting(example = { "a.example.com": "a", "*": "b" })]
    pub sni: Option<Named<Spanned<String>>>,
    /// Upstreams by the protocol that the client offers in the TLS ClientHello (ALPN); of several,
    /// the first that is listed. `sni` or `upstream` is for clients that offer none of these;
    /// without both they are closed. TLS is passed through.
    #[setting(example = { "acme-tls/1": "acme", "h2": "grpc" })]
    pub alpn: Option<Named<Spanned<String>>>,
    /// Terminates TLS: the upstream receives the decrypted data.
    pub tls: Option<Spanned<ListenerTlsSettings>>,
    /// Proxies that connect for clients and name them in a PROXY header.
    pub proxy_protocol: Option<ProxyProtocolSettings>,
    /// Clients that may connect; all unless set. Others are closed.
    #[setting(default = [], example = ["10.0.0.0/8"])]
    pub allow: Vec<Cidr>,
    /// Clients that may not connect, even if `allow` lists them.
    #[setting(default = [], example = ["10.0.0.1"])]
    pub deny: Vec<Cidr>,
    /// Idle time before the kernel probes whether the client still responds; unless set, it does
    /// not.
    #[setting(range = "1s"..="9h", example = "60s")]
    pub keepalive: Option<Duration>,
    /// Limits of the stream.
    #[setting(default = {})]
    pub limits: StreamLimits,
    /// Time-outs of the stream.
    #[setting(default = {})]
    pub timeouts: StreamTimeouts,
}

/// The transport of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Setting)]
pub enum StreamProtocol {
    /// Connections.
    Tcp,
    /// Datagrams. Those of one client address and port are a session with one server, until none
    /// was sent or received for `timeouts.idle`; limits of connections count sessions.
    Udp,
}

/// Limits of a stream.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct StreamLimits {
    /// Connections open at once; more are closed. Unless set, `limits.connections` of the server.
    #[setting(range = 1..=10000000, example = 1000)]
    pub connections: Option<u32>,
    /// Connections of one client address open at once, of IPv6 those of one /64; more are closed.
    #[setting(range = 1..=1000000, example = 20)]
    pub connections_per_client: Option<u32>,
    /// How often one client address may connect, of IPv6 one /64, over all workers; more are
    /// closed. As many connections as the rate has per second may come at once. A reload keeps
    /// what was counted.
    #[setting(example = "10/s")]
    pub connection_rate_per_client: Option<Rate>,
}

/// Time-outs of a stream.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct StreamTimeouts {
    /// For the PROXY header, the ClientHello and the TLS handshake, each. Unless set,
    /// `timeouts.handshake` of the server.
    #[setting(range = "1ms"..="1h")]
    pub handshake: Option<Duration>,
    /// Longest time without a byte in either direction. Unless set, `timeouts.idle` of the
    /// upstream.
    #[setting(range = "1ms"..="7d", example = "10m")]
    pub idle: Option<Duration>,
}

fn check_stream(stream: &StreamSettings, node: &Node, reader: &mut Reader<'_>) {
    if stream.protocol == StreamProtocol::Udp {
        check_udp(stream, node, reader);
    }
    match (&stream.upstream, &stream.sni) {
        (None, None) if stream.alpn.is_none() => {
            reader
                .error(node.span, "a stream needs an upstream")
                .help("write upstream: NAME, or sni: { NAME: UPSTREAM }");
        }
        (Some(upstream), Some(_)) => {
            let message = "`sni` chooses the upstream: `upstream` would never be used";
            reader.error(upstream.span, message).help("write it as the name \"*\" of sni");
        }
        _ => {}
    }
    let Some(tls) = &stream.tls else { return };
    for (key, is_set) in [("sni", stream.sni.is_some()), ("alpn", stream.alpn.is_some())] {
        if is_set {
            let message =
                format!("`{key}` passes TLS through, so there is none that could end here");
            reader.error(tls.span, message).help(format!("leave out tls or {key}"));
        }
    }
    if tls.plain_http == PlainHttp::Redirect || tls.redirect_from.is_some() {
        reader.error(tls.span, "a stream cannot redirect: it does not speak HTTP");
    }
    if let Some(hsts) = &tls.hsts {
        reader.error(hsts.span, "a stream has no headers");
    }
}

/// What only connections have.
fn check_udp(stream: &StreamSettings, node: &Node, reader: &mut Reader<'_>) {
    let keys = [
        ("tls", stream.tls.is_some()),
        ("sni", stream.sni.is_some()),
        ("alpn", stream.alpn.is_some()),
        ("proxy_protocol", stream.proxy_protocol.is_some()),
        ("keepalive", stream.keepalive.is_some()),
    ];
    for (key, _) in keys.iter().filter(|(_, is_set)| *is_set) {
        let place = node.get(key).unwrap_or(node);
        reader.error(place.span, format!("a stream of UDP has no `{key}`"));
    }
    if matches!(stream.bind.value, Address::Unix(_)) {
        reader.error(stream.bind.span, "a stream of UDP is bound to an IP address and a port");
    }
}
