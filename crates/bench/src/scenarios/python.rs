//! Python applications: hello, an echo, a delay, a FastAPI endpoint, a WebSocket, a gateway and a
//! cache in front of one, and the published page of a Python server.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::{App, Protocol};

const fn scenario(name: &'static str, about: &'static str, cases: &'static [Case]) -> Scenario {
    Scenario { name, about, cases, by_default: false }
}

const fn case(name: &'static str, about: &'static str, serve: Serve) -> Case {
    let kind = if matches!(serve, Serve::AppLoop) { Kind::Program } else { Kind::Load };
    Case { name, about, replays: None, serve, protocol: Protocol::Http1, kind }
}

pub(super) const ASGI_HELLO: Scenario = scenario(
    "asgi-hello",
    "four bytes from an application of ASGI",
    &[case(
        "asgi-hello",
        "GET of four bytes from an application of ASGI; the floor has them in memory.",
        Serve::App(App::AsgiHello),
    )],
);

pub(super) const WSGI_HELLO: Scenario = scenario(
    "wsgi-hello",
    "four bytes from an application of WSGI",
    &[case(
        "wsgi-hello",
        "GET of four bytes from an application of WSGI; the floor has them in memory.",
        Serve::App(App::WsgiHello),
    )],
);

pub(super) const ECHO: Scenario = scenario(
    "app-echo",
    "10 KB echoed by applications of ASGI and of WSGI",
    &[
        case(
            "app-echo-asgi",
            "POST of 10 000 bytes, which an application of ASGI says back.",
            Serve::App(App::AsgiEcho),
        ),
        case(
            "app-echo-wsgi",
            "POST of 10 000 bytes, which an application of WSGI says back.",
            Serve::App(App::WsgiEcho),
        ),
    ],
);

pub(super) const ASGI_SLEEP: Scenario = scenario(
    "asgi-sleep",
    "four bytes after 10 ms of asyncio.sleep, for 512 connections",
    &[case(
        "asgi-sleep",
        "GET of four bytes after 10 ms of asyncio.sleep.",
        Serve::App(App::AsgiSleep),
    )],
);

pub(super) const WSGI_SLEEP: Scenario = scenario(
    "wsgi-sleep",
    "four bytes after 10 ms of time.sleep",
    &[case(
        "wsgi-sleep",
        "GET of four bytes after 10 ms of time.sleep, which takes a thread.",
        Serve::App(App::WsgiSleep),
    )],
);

pub(super) const FASTAPI: Scenario = scenario(
    "fastapi-json",
    "a JSON endpoint of FastAPI, and the same called in a loop without a server",
    &[
        case(
            "fastapi-json",
            "GET of a JSON document from an endpoint of FastAPI.",
            Serve::App(App::FastApi),
        ),
        case(
            "fastapi-json-loop",
            "The same application, called in a loop without a server.",
            Serve::AppLoop,
        ),
    ],
);

const fn over(name: &'static str, about: &'static str, protocol: Protocol) -> Case {
    Case { protocol, ..case(name, about, Serve::App(App::FastApi)) }
}

pub(super) const FASTAPI_TLS: Scenario = scenario(
    "fastapi-tls",
    "the JSON endpoint of FastAPI over TLS, and over HTTP/2",
    &[
        over(
            "fastapi-tls",
            "The document of `fastapi-json` over TLS 1.3, on connections that stay open.",
            Protocol::Https { handshakes: None },
        ),
        over(
            "fastapi-tls-h2",
            "The same over HTTP/2 without TLS, 10 streams of each connection.",
            Protocol::Http2 { streams: 10 },
        ),
    ],
);

pub(super) const GEVENT: Scenario = scenario(
    "gevent",
    "hello, and 10 ms of sleep for 1000 connections, each request in a greenlet",
    &[
        case(
            "gevent-hello",
            "GET of four bytes from an application of WSGI in greenlets.",
            Serve::App(App::GeventHello),
        ),
        case(
            "gevent-sleep",
            "GET of four bytes after 10 ms of time.sleep in a greenlet.",
            Serve::App(App::GeventSleep),
        ),
    ],
);

pub(super) const WEBSOCKET: Scenario = scenario(
    "websocket-echo",
    "texts echoed over WebSocket by an application of ASGI",
    &[case(
        "websocket-echo",
        "A text of 64 bytes, which an application of ASGI says back over WebSocket.",
        Serve::App(App::WebSocket),
    )],
);

pub(super) const ASGI_UP: Scenario = scenario(
    "asgi-up",
    "four bytes from an application of ASGI behind a gateway",
    &[case(
        "asgi-up",
        "GET of four bytes from an application of ASGI behind a gateway: `tidegate up`, and nginx \
         with Granian on a Unix socket.",
        Serve::AppGateway,
    )],
);

pub(super) const CACHE: Scenario = scenario(
    "cache-python",
    "hits of a document of an application, and hits without Python",
    &[case(
        "cache-python",
        "GET of a stored document of 1 KiB that an application of ASGI answered once; `baseline` \
         is tidegate with the same from a backend.",
        Serve::AppCached,
    )],
);

pub(super) const PAGE: Scenario = scenario(
    "python-page",
    "hello as LiteFS publishes it: one process and one for each core, 500 and 1000 connections",
    &[Case {
        name: "python-page",
        about: "GET of four bytes from an application of Python, as a published page has it.",
        replays: Some("hello"),
        serve: Serve::App(App::Page),
        protocol: Protocol::Http1,
        kind: Kind::Load,
    }],
);
