//! Streams: each is bound like a listener, and names upstreams that exist.

use std::sync::Arc;

use net::ListenOptions;
use settings::{Address, Reader, Spanned, quote};
use streams::{HelloChoice, StreamPlan, UpstreamChoice};
use upstream::ServerSettings;

use super::{check_name, listeners};
use crate::records::{
    EncodedSlashes, ProxyProtocolSettings, Settings, StreamProtocol, StreamSettings, UnknownHost,
};
use crate::server_plan::ListenerPlan;

pub(super) fn compile(
    settings: &Settings,
    listeners: &[ListenerPlan],
    reader: &mut Reader<'_>,
) -> Vec<(ListenerPlan, Arc<StreamPlan>)> {
    let mut plans: Vec<(ListenerPlan, Arc<StreamPlan>)> = Vec::new();
    for (place, stream) in settings.streams.iter().enumerate() {
        let name = name(stream, place, &plans, reader);
        let choice = choice(stream, settings, reader);
        let tls = stream.tls.as_ref().and_then(|tls| tls.build(&[], tls.span, reader));
        let (tls, acme) = tls.map_or((None, None), |tls| (Some(tls.server), tls.acme));
        let Some(bind) = listeners::bind(&stream.bind, reader) else { continue };
        let others = listeners.iter().chain(plans.iter().map(|(listener, _)| listener));
        let is_udp = stream.protocol == StreamProtocol::Udp;
        listeners::taken(&bind, &stream.bind, is_udp, others, reader);
        let Some(choice) = choice else { continue };
        let mut limits = settings.limits.clone();
        limits.connections = stream.limits.connections.unwrap_or(limits.connections);
        let timeouts = settings.timeouts.clone();
        let plan = StreamPlan {
            name: name.clone(),
            choice,
            tls,
            acme,
            proxy_protocol: stream.proxy_protocol.as_ref().map(ProxyProtocolSettings::build),
            allow: stream.allow.clone(),
            deny: stream.deny.clone(),
            connections_per_client: stream.limits.connections_per_client,
            connection_rate_per_client: stream.limits.connection_rate_per_client,
            handshake: stream.timeouts.handshake.unwrap_or(timeouts.handshake).get(),
            idle: stream.timeouts.idle.map(settings::Duration::get),
        };
        let keepalive = stream.keepalive.map(settings::Duration::get);
        let listener = ListenerPlan {
            name,
            bind,
            options: ListenOptions { keepalive, datagrams: is_udp, ..ListenOptions::default() },
            proxy_protocol: None,
            tls: None,
            redirects_to: None,
            protocols: Vec::new(),
            half_close: false,
            encoded_slashes: EncodedSlashes::Refuse,
            unknown_host: UnknownHost::NotFound,
            limits,
            timeouts,
        };
        plans.push((listener, Arc::new(plan)));
    }
    plans
}

fn name(
    stream: &StreamSettings,
    place: usize,
    others: &[(ListenerPlan, Arc<StreamPlan>)],
    reader: &mut Reader<'_>,
) -> String {
    let Some(name) = &stream.name else { return format!("stream-{}", place + 1) };
    check_name("stream", name, reader);
    if others.iter().any(|(_, other)| other.name == name.value) {
        reader.error(name.span, format!("another stream is named {}", quote(name)));
    }
    name.value.clone()
}

fn choice(
    stream: &StreamSettings,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Option<UpstreamChoice> {
    if let Some(upstream) = &stream.upstream {
        check_upstream(upstream, settings, reader);
        if stream.protocol == StreamProtocol::Udp {
            check_datagrams(upstream, settings, reader);
        }
        if stream.alpn.is_none() {
            return Some(UpstreamChoice::Always(upstream.value.clone()));
        }
    }
    let mut choice = HelloChoice::default();
    if let Some(upstream) = &stream.upstream {
        choice.names.add("*", upstream);
    }
    for (pattern, upstream) in stream.sni.iter().flat_map(|sni| &sni.entries) {
        check_upstream(upstream, settings, reader);
        if !choice.names.add(pattern, upstream) {
            let message = format!("{} is not a server name, or is repeated", quote(pattern));
            let help = "write a name such as a.example.com, *.example.com for names below it, or *";
            reader.error(pattern.span, message).help(help);
        }
    }
    for (protocol, upstream) in stream.alpn.iter().flat_map(|alpn| &alpn.entries) {
        check_upstream(upstream, settings, reader);
        choice.protocols.insert(protocol.value.clone(), upstream.value.clone());
    }
    (stream.sni.is_some() || stream.alpn.is_some()).then_some(UpstreamChoice::ByHello(choice))
}

/// Reports what a server of datagrams cannot be.
fn check_datagrams(upstream: &Spanned<String>, settings: &Settings, reader: &mut Reader<'_>) {
    let declared = settings.upstreams.entries.iter().find(|(name, _)| name.value == upstream.value);
    let Some((_, declared)) = declared else { return };
    if declared.send_proxy_protocol.is_some() {
        let message = "a stream of UDP sends no PROXY header, which its upstream asks for";
        reader.error(upstream.span, message);
    }
    let is_unix = |server: &ServerSettings| matches!(server.address.address, Address::Unix(_));
    if declared.uses_tls() || declared.servers.iter().any(is_unix) {
        let message = "a stream of UDP has servers with a host and a port, and without TLS";
        reader.error(upstream.span, message);
    }
}

fn check_upstream(upstream: &Spanned<String>, settings: &Settings, reader: &mut Reader<'_>) {
    if !settings.upstreams.names().any(|declared| declared == upstream.value) {
        let declared = settings.upstreams.names();
        reader.report().dangling(upstream.span, "upstream", upstream, declared);
    }
}
