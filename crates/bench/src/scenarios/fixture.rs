//! The environment of the servers of a case: backend, files, request and correct response.

use super::probe::{WAIT, ask, connect, probe, probe_pings, request_with};
use super::{Case, Serve, Transfer, cache, certificate, compressed, websocket};
use crate::floor::{self, Behaviour, Content, Floor, bodies};
use crate::load::{
    Address, Call, Command, Expect, Handshakes, SERVER_NAME, Target, Tls, Traffic, check, greeting,
    numbered, pings,
};
use crate::peers::{
    App, Backend, CALL_PATH, CacheRequest, DOCUMENT_PATH, Finder, Guard, HELLO_BODY, HELLO_PATH,
    ITEM, ITEM_PATH, NUMBERED_PATH, Protocol, ROUTED_PATH, Role, RunContext,
};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
/// The body of the mock backend.
const DOCUMENT_BYTES: usize = 2048;
/// What an application says back, in a body and over WebSocket.
const ECHO_BYTES: usize = 10_000;
const TEXT_BYTES: usize = 64;

/// Ready for servers to be started in this role.
pub(crate) struct Fixture {
    pub role: Role,
    ask: CaseRequest,
    protocol: Protocol,
    documents: u32,
    tls: Option<Arc<Tls>>,
    /// Ends when the stage does.
    backend: Option<Backend>,
}

/// A request and its correct response.
enum CaseRequest {
    Get {
        path: String,
        /// Whole lines.
        fields: String,
        body: Arc<[u8]>,
        /// The response is to be compressed, each server in its own way.
        coded: bool,
        /// The first responses may be other ones: a cache has to be filled.
        warms: bool,
    },
    Post {
        path: String,
        content: Arc<[u8]>,
        /// The response.
        body: Arc<[u8]>,
    },
    /// A gRPC call with a message of that many bytes; the same is sent back.
    Call {
        message_bytes: usize,
    },
    Ping {
        command: Command,
        pipeline: u32,
    },
    /// A text, said back.
    WebSocket {
        text: Vec<u8>,
    },
}

impl Fixture {
    pub(crate) fn set(
        case: &Case,
        finder: &Finder,
        context: &RunContext<'_>,
    ) -> Result<Self, String> {
        let Case { serve, protocol, .. } = *case;
        let behaviour = |delay, keep| {
            let (body_bytes, content) = (DOCUMENT_BYTES, Content::Text);
            Behaviour { body_bytes, delay, keep, content }
        };
        let backend = match serve {
            Serve::Gateway { delay, keep } => Some(Floor::Backend(behaviour(delay, keep))),
            Serve::Guarded(_) | Serve::Filtered(_) => {
                Some(Floor::Backend(behaviour(Duration::ZERO, true)))
            }
            Serve::Grpc { message_bytes } => Some(Floor::Grpc { message_bytes }),
            Serve::Bodies(_) => Some(Floor::Bodies),
            _ => serve.listed_bytes().map(|bytes| {
                let (body_bytes, content) = (bytes, Content::Listing);
                Floor::Backend(Behaviour { body_bytes, content, ..behaviour(Duration::ZERO, true) })
            }),
        };
        let backend = backend.map(|it| Backend::start(finder, it, context)).transpose()?;
        let root = context.directory.join("files");
        let written = match (serve, serve.listed_bytes()) {
            (Serve::File { name, bytes }, _) => {
                write(&root, &[(name.to_owned(), floor::body(bytes))])
            }
            (_, Some(bytes)) => {
                let (name, document) = (DOCUMENT_PATH.trim_matches('/'), floor::listing(bytes));
                let gzip = compressed::gzip(&document);
                write(&root, &[(name.to_owned(), document), (format!("{name}.gz"), gzip)])
            }
            _ => Ok(()),
        };
        written.map_err(|why| format!("{}: {why}", root.display()))?;
        // Without a backend its address is not used.
        let address = backend.as_ref().map_or(NOWHERE, |backend| backend.address);
        let ask = CaseRequest::of(serve).ok_or("the case sends no requests")?;
        let tls = match protocol {
            Protocol::Http1 | Protocol::Http2 { .. } => None,
            Protocol::Https { handshakes } => {
                let certificate = certificate::write(&context.certificates())?;
                let tls = Tls::new(certificate, handshakes.unwrap_or(Handshakes::Full));
                Some(Arc::new(tls.map_err(|why| format!("certificate: {why}"))?))
            }
        };
        let documents = case.documents();
        Ok(Self { role: serve.role(address, root), ask, protocol, documents, tls, backend })
    }

    /// The target of the load.
    pub(crate) fn target(&self, address: SocketAddr) -> Target {
        let keep_alive = !self.is_for_handshakes();
        let traffic = match &self.ask {
            CaseRequest::Get { coded: true, .. } => {
                let encoding = ("Content-Encoding".to_owned(), "gzip".to_owned());
                let expect = Expect { status: 200, headers: vec![encoding], ..Expect::default() };
                Traffic::Http { request: self.request(address), expect, keep_alive }
            }
            CaseRequest::Get { body, .. } | CaseRequest::Post { body, .. } => {
                let expect = Expect {
                    status: 200,
                    length: Some(body.len() as u64),
                    body: Some(Arc::clone(body)),
                    ..Expect::default()
                };
                match (self.protocol, &self.ask) {
                    (Protocol::Http2 { .. }, CaseRequest::Get { path, .. }) => {
                        self.streams(address, path, None, expect)
                    }
                    _ => Traffic::Http { request: self.request(address), expect, keep_alive },
                }
            }
            CaseRequest::Call { message_bytes } => {
                let content = floor::message(*message_bytes);
                let expect = Expect {
                    status: 200,
                    length: Some(content.len() as u64),
                    body: Some(Arc::from(&content[..])),
                    trailers: vec![("grpc-status".to_owned(), "0".to_owned())],
                    ..Expect::default()
                };
                let call = Call { content, holds: false };
                self.streams(address, CALL_PATH, Some(call), expect)
            }
            CaseRequest::Ping { command, pipeline } => {
                Traffic::Resp { command: *command, pipeline: *pipeline }
            }
            CaseRequest::WebSocket { text } => {
                Traffic::WebSocket { greeting: self.request(address), text: text.clone() }
            }
        };
        Target { address: Address::Tcp(address), tls: self.tls.clone(), traffic }
    }

    /// The same for connections that then idle. A gRPC call of them stays open.
    pub(crate) fn idle_target(&self, address: SocketAddr) -> Target {
        let mut target = self.target(address);
        if let Traffic::Http2 { call: Some(call), .. } = &mut target.traffic {
            call.holds = true;
        }
        target
    }

    /// The traffic of a case over HTTP/2.
    fn streams(
        &self,
        address: SocketAddr,
        path: &str,
        call: Option<Call>,
        expect: Expect,
    ) -> Traffic {
        let streams = match self.protocol {
            Protocol::Http2 { streams } => streams,
            Protocol::Http1 | Protocol::Https { .. } => 1,
        };
        let (authority, path) = (address.to_string(), path.to_owned());
        Traffic::Http2 { authority, path, call, streams, expect }
    }

    /// True if each request has a connection of its own, because handshakes are measured.
    fn is_for_handshakes(&self) -> bool {
        matches!(self.protocol, Protocol::Https { handshakes: Some(_) })
    }

    fn request(&self, address: SocketAddr) -> Vec<u8> {
        let host = match self.tls {
            Some(_) => format!("{SERVER_NAME}:{}", address.port()),
            None => address.to_string(),
        };
        match &self.ask {
            CaseRequest::Get { path, .. } if self.is_for_handshakes() => {
                request_with(host, path, "Connection: close\r\n")
            }
            CaseRequest::Get { path, fields, .. } => request_with(host, path, fields),
            CaseRequest::Post { path, content, .. } => {
                let fields = format!("Content-Length: {}\r\n\r\n", content.len());
                let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\n{fields}");
                [head.as_bytes(), content].concat()
            }
            CaseRequest::Ping { command, pipeline } => pings(*command, *pipeline),
            CaseRequest::Call { .. } => Vec::new(),
            CaseRequest::WebSocket { .. } => greeting(address, HELLO_PATH),
        }
    }

    /// Whether the server responds rightly when there is no load; the error is half a sentence.
    pub(crate) fn check(&self, address: SocketAddr, deadline: Instant) -> Result<(), String> {
        if self.protocol != Protocol::Http1 {
            return check(&self.target(address), deadline.min(Instant::now() + WAIT));
        }
        let request = self.request(address);
        let (body, coded, warms) = match &self.ask {
            // In chunks.
            CaseRequest::Get { path, .. } if path == bodies::CHUNKED_PATH => {
                return check(&self.target(address), deadline);
            }
            CaseRequest::Get { body, coded, warms, .. } => (body, *coded, *warms),
            CaseRequest::Post { .. } | CaseRequest::Call { .. } => {
                return check(&self.target(address), deadline);
            }
            CaseRequest::WebSocket { text } => {
                return websocket::probe(address, &request, text, deadline);
            }
            CaseRequest::Ping { pipeline, .. } => {
                return probe_pings(address, &request, *pipeline, deadline);
            }
        };
        if warms {
            compressed::warm(address, &request, coded, deadline)?;
        }
        if self.documents > 1 {
            store(address, &request, self.documents, deadline)
                .map_err(|why| format!("does not store: {why}"))?;
        }
        let answer = probe(address, &request, deadline)?;
        let right =
            if coded { compressed::is_gzip_of(&answer.body, body) } else { *answer.body == **body };
        match answer.status {
            200 if right => Ok(()),
            200 => Err(format!("answers {} bytes that are not right", answer.body.len())),
            status => Err(format!("answers {status}")),
        }
    }

    /// Ends the backend, so that a response that is not stored is an error.
    pub(crate) fn end_backend(&mut self) {
        self.backend = None;
    }

    /// The address and the process of the backend.
    pub(crate) fn backend(&self) -> Option<(SocketAddr, u32)> {
        self.backend.as_ref().map(|backend| (backend.address, backend.id()))
    }

    /// Processes that are part of the load.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.backend.iter().map(Backend::id).collect()
    }
}

/// Requests every document, twice: a cache may have been too busy to store one.
fn store(address: SocketAddr, request: &[u8], documents: u32, deadline: Instant) -> io::Result<()> {
    let mut stream = connect(address, deadline)?;
    for number in (0..documents).cycle().take(2 * documents as usize) {
        let answer = ask(&mut stream, &numbered(request, number), deadline)?;
        if answer.status != 200 {
            return Err(io::Error::other(format!("status {}", answer.status)));
        }
    }
    Ok(())
}

fn write(directory: &Path, files: &[(String, Vec<u8>)]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    files.iter().try_for_each(|(name, text)| fs::write(directory.join(name), text))
}

impl CaseRequest {
    /// `None` without requests.
    fn of(serve: Serve) -> Option<Self> {
        let get = |path: &str, body: Vec<u8>| Self::Get {
            path: path.to_owned(),
            fields: String::new(),
            body: body.into(),
            coded: false,
            warms: false,
        };
        Some(match serve {
            Serve::Hello | Serve::LuaHello => get(HELLO_PATH, HELLO_BODY.into()),
            // A gateway may response for an application that is not up yet.
            Serve::AppGateway => Self::Get {
                path: HELLO_PATH.to_owned(),
                fields: String::new(),
                body: HELLO_BODY.as_bytes().into(),
                coded: false,
                warms: true,
            },
            Serve::App(App::AsgiEcho | App::WsgiEcho) => {
                let content: Arc<[u8]> = floor::body(ECHO_BYTES).into();
                Self::Post { path: HELLO_PATH.to_owned(), body: Arc::clone(&content), content }
            }
            Serve::App(App::WebSocket) => Self::WebSocket { text: floor::body(TEXT_BYTES) },
            Serve::App(App::FastApi) => get(ITEM_PATH, ITEM.into()),
            Serve::App(_) => get(HELLO_PATH, HELLO_BODY.into()),
            Serve::Routes { .. } => get(ROUTED_PATH, HELLO_BODY.into()),
            Serve::Gateway { .. } => get(DOCUMENT_PATH, floor::body(DOCUMENT_BYTES)),
            Serve::Bodies(Transfer::Download) => {
                get(bodies::DOWNLOAD_PATH, floor::body(bodies::LARGE_BYTES))
            }
            Serve::Bodies(Transfer::Upload) => Self::Post {
                path: "/upload".to_owned(),
                content: floor::body(bodies::LARGE_BYTES).into(),
                body: bodies::RECEIVED.as_bytes().into(),
            },
            Serve::Bodies(Transfer::Chunked) => {
                get(bodies::CHUNKED_PATH, floor::body(bodies::CHUNKED_BYTES))
            }
            Serve::Guarded(guard) => guarded(guard),
            Serve::Filtered(_) => guarded(Guard::Key),
            Serve::Cached { bytes, asked } => stored(bytes, asked),
            Serve::AppCached => stored(cache::SMALL, CacheRequest::Small),
            Serve::File { name, bytes } => get(&format!("/{name}"), floor::body(bytes)),
            Serve::Grpc { message_bytes } => Self::Call { message_bytes },
            Serve::Ping { command, pipeline } => Self::Ping { command, pipeline },
            Serve::Json { .. } | Serve::AppLoop => return None,
        })
    }
}

/// A document for a client with a credential.
fn guarded(guard: Guard) -> CaseRequest {
    CaseRequest::Get {
        path: DOCUMENT_PATH.to_owned(),
        fields: guard.field(),
        body: floor::body(DOCUMENT_BYTES).into(),
        coded: false,
        warms: false,
    }
}

/// A document that has been stored.
fn stored(bytes: usize, asked: CacheRequest) -> CaseRequest {
    CaseRequest::Get {
        path: match asked {
            CacheRequest::Many => NUMBERED_PATH.to_owned(),
            _ => DOCUMENT_PATH.to_owned(),
        },
        fields: match asked {
            CacheRequest::Gzip => "Accept-Encoding: gzip\r\n".to_owned(),
            _ => String::new(),
        },
        body: floor::listing(bytes).into(),
        coded: asked == CacheRequest::Gzip,
        warms: true,
    }
}

impl Serve {
    /// How large the document is that may be kept, if there is one.
    fn listed_bytes(self) -> Option<usize> {
        match self {
            Self::Cached { bytes, .. } => Some(bytes),
            Self::AppCached => Some(cache::SMALL),
            _ => None,
        }
    }
}
