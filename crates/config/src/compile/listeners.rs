//! Listeners: addresses to bind, each once, with the limits and time-outs that count there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use net::{Bind, ListenOptions};
use settings::{Address, Host, Reader, Spanned, quote};
use tls_settings::ListenerTlsSettings;

use crate::records::{
    EncodedSlashes, HttpVersion, ListenerSettings, ProxyProtocolSettings, Settings, UnknownHost,
};
use crate::server_plan::{ListenerPlan, ListenerTls};

pub(super) fn compile(settings: &Settings, reader: &mut Reader<'_>) -> Vec<ListenerPlan> {
    let mut plans: Vec<ListenerPlan> = Vec::new();
    for (name, listener) in &settings.listeners.entries {
        let Some(bind) = bind(&listener.bind, reader) else { continue };
        taken(&bind, &listener.bind, false, plans.iter(), reader);
        plans.push(plan(&name.value, bind, listener, settings, reader));
        let redirect_from = listener.tls.as_ref().and_then(|tls| tls.redirect_from.as_ref());
        if let Some(written) = redirect_from {
            plans.extend(redirect(written, &plans, settings, reader));
        }
    }
    if let (Some(route), true) =
        (settings.routes.first(), settings.listeners.names().next().is_none())
    {
        reader
            .error(route.span, "there are routes but no listener")
            .help("add one: listeners: { web: { bind: \"127.0.0.1:8080\" } }");
    }
    plans
}

/// Programs of Lua: each is bound like a listener.
pub(super) fn programs(
    settings: &Settings,
    listeners: &[ListenerPlan],
    reader: &mut Reader<'_>,
) -> Vec<(ListenerPlan, lua_host::ProgramPlan)> {
    let mut plans: Vec<(ListenerPlan, lua_host::ProgramPlan)> = Vec::new();
    for (place, program) in settings.programs.iter().enumerate() {
        let read = lua_host::ProgramPlan::read(program, reader);
        let Some(bind) = bind(&program.bind, reader) else { continue };
        let others = listeners.iter().chain(plans.iter().map(|(listener, _)| listener));
        taken(&bind, &program.bind, false, others, reader);
        let Some(read) = read else { continue };
        let listener = ListenerPlan {
            name: format!("program-{}", place + 1),
            bind,
            options: ListenOptions::default(),
            proxy_protocol: None,
            tls: None,
            redirects_to: None,
            protocols: HttpVersion::ALL.to_vec(),
            half_close: false,
            encoded_slashes: EncodedSlashes::Refuse,
            unknown_host: UnknownHost::NotFound,
            limits: settings.limits.clone(),
            timeouts: settings.timeouts.clone(),
        };
        plans.push((listener, read));
    }
    plans
}

/// The address of the admin API, which no listener may have.
pub(super) fn admin(
    settings: &Settings,
    listeners: &[ListenerPlan],
    programs: &[(ListenerPlan, lua_host::ProgramPlan)],
    reader: &mut Reader<'_>,
) -> Option<Bind> {
    if let Some(from) = settings.admin.tls.as_ref().and_then(|tls| tls.redirect_from.as_ref()) {
        reader.error(from.span, "only listeners have requests redirected to them");
    }
    let written = settings.admin.bind.as_ref()?;
    let bind = bind(written, reader)?;
    let all = listeners.iter().chain(programs.iter().map(|(listener, _)| listener));
    taken(&bind, written, false, all, reader);
    Some(bind)
}

/// Reports an address that a listener has already, or that its address includes.
pub(super) fn taken<'p>(
    bind: &Bind,
    written: &Spanned<Address>,
    datagrams: bool,
    mut listeners: impl Iterator<Item = &'p ListenerPlan>,
    reader: &mut Reader<'_>,
) {
    let overlaps =
        |plan: &&ListenerPlan| plan.options.datagrams == datagrams && plan.bind.overlaps(bind);
    if let Some(other) = listeners.find(overlaps) {
        let name = quote(&other.name);
        let error = match other.bind == *bind {
            true => format!("listener {name} has this address already"),
            false => format!("listener {name} has this port already, on {}", other.bind),
        };
        reader.error(written.span, error);
    }
}

fn plan(
    name: &str,
    bind: Bind,
    listener: &ListenerSettings,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> ListenerPlan {
    let protocols = listener.protocols.value.clone();
    if protocols.is_empty() {
        reader
            .error(listener.protocols.span, "no version of HTTP")
            .help("write protocols: [h2, http/1.1], or leave it out");
    }
    ListenerPlan {
        name: name.to_owned(),
        bind,
        options: ListenOptions {
            backlog: listener.backlog,
            nodelay: listener.nodelay,
            keepalive: listener.keepalive.map(settings::Duration::get),
            mode: None,
            datagrams: false,
        },
        proxy_protocol: listener.proxy_protocol.as_ref().map(ProxyProtocolSettings::build),
        tls: listener.tls.as_ref().and_then(|written| tls(written, &protocols, reader)),
        redirects_to: None,
        protocols,
        half_close: listener.half_close,
        encoded_slashes: listener.encoded_slashes,
        unknown_host: listener.unknown_host,
        limits: settings.limits.for_listener(&listener.limits),
        timeouts: settings.timeouts.for_listener(&listener.timeouts),
    }
}

/// The listener whose requests are redirected to the last of `plans`.
fn redirect(
    written: &Spanned<Address>,
    plans: &[ListenerPlan],
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Option<ListenerPlan> {
    let secure = plans.last()?;
    let bind = bind(written, reader)?;
    taken(&bind, written, false, plans.iter(), reader);
    let Bind::Tcp(address) = secure.bind else {
        reader.error(written.span, "a listener on a Unix socket has no port to redirect to");
        return None;
    };
    let name = format!("{}-redirect", secure.name);
    if settings.listeners.names().any(|declared| *declared == *name) {
        let why = format!("its listener would be named {}, as another one is", quote(&name));
        reader.error(written.span, why);
    }
    Some(ListenerPlan {
        name,
        bind,
        tls: None,
        redirects_to: Some(address.port()),
        ..secure.clone()
    })
}

/// Compiles the TLS settings of a listener.
pub(super) fn tls(
    written: &Spanned<ListenerTlsSettings>,
    protocols: &[HttpVersion],
    reader: &mut Reader<'_>,
) -> Option<ListenerTls> {
    let protocols: Vec<&[u8]> = protocols.iter().map(|version| version.alpn()).collect();
    let built = written.build(&protocols, written.span, reader)?;
    Some(ListenerTls {
        server: built.server,
        acme: built.acme,
        plain_http: written.plain_http,
        hsts: written.hsts.as_ref().map(|hsts| hsts.value()),
    })
}

/// The address to bind. Names other than `localhost` may lead elsewhere tomorrow and are refused.
pub(super) fn bind(address: &Spanned<Address>, reader: &mut Reader<'_>) -> Option<Bind> {
    match &address.value {
        Address::Unix(path) => Some(Bind::Unix(path.clone())),
        Address::Tcp { host: Host::Name(name), port } if name == "localhost" => {
            Some(Bind::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), *port)))
        }
        Address::Tcp { port, .. } => match address.value.socket_addr() {
            Some(socket) => Some(Bind::Tcp(socket)),
            None => {
                reader
                    .error(address.span, "a listener is bound to an address, not to a name")
                    .help(format!("write the IP address, or :{port} for all addresses"));
                None
            }
        },
    }
}
