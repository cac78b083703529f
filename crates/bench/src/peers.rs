//! The compared servers: one file for each, with its exact configuration.
//!
//! Owns the definition of a peer: how its program is found, which roles it supports, and the files,
//! arguments and environment for a role, each setting with its documentation page. Promises one
//! worker by default, unlimited keep-alive, and no access log. A missing program is one line, not
//! an error. Never measures.

mod against;
mod bare_loop;
mod baseline;
mod cache_request;
mod caddy;
mod envoy;
mod executables;
mod fastpysgi;
mod finder;
mod floor;
mod granian;
mod guard;
mod gunicorn;
mod h2o;
mod haproxy;
mod hypercorn;
mod lua_cjson;
mod nginx;
mod nginx_granian;
mod pike;
mod process;
mod python;
mod redis;
mod running;
mod silly;
mod sources;
mod tidegate;
mod tracer;
mod uvicorn;
mod varnish;

pub use cache_request::{CacheRequest, DOCUMENTS, NUMBERED_PATH};
pub use finder::{Finder, FoundPeer};
pub use guard::Guard;
pub use python::{App, interpreter};
pub(crate) use python::{ITEM, ITEM_PATH};
pub use running::{Backend, RunContext, Running};
pub(crate) use running::{Done, run_program};
pub(crate) use tracer::Tracer;

use crate::load::Handshakes;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The path that `hello` and `gateway` request.
pub const HELLO_PATH: &str = "/ping";
pub const HELLO_BODY: &str = "pong";
pub const DOCUMENT_PATH: &str = "/document";
/// The method that gRPC calls name.
pub const CALL_PATH: &str = "/bench.v1.Bench/Call";

/// The header field of `filters` with the API key.
pub const KEY_FIELD: &str = "X-API-Key";
pub const KEY: &str = "bench-key-0123456789abcdef";
/// The path that `routes` requests, among many others.
pub const ROUTED_PATH: &str = "/api/v1/asked/items/42";
/// Requests a second that one client may make: more than any can.
const RATE_MAX: u32 = 10_000_000;
/// And at once.
const BURST_MAX: u32 = 1_000_000;

/// More requests and seconds than any run has: what "without end" is in a configuration.
const MANY: u32 = 1_000_000_000;
/// Connections that a server must be able to hold at a time.
const CONNECTIONS_MAX: u32 = 32_768;
/// Connections that may wait to be accepted.
pub(crate) const BACKLOG: u32 = 4096;

/// One server that can be compared.
#[derive(Debug)]
pub struct Peer {
    pub name: &'static str,
    program: Program,
    /// Usual start time, for the planned duration.
    pub start_seconds: f64,
    /// Returns the setup for a role; `None` if the peer does not support it.
    setup: fn(&Site) -> Option<Setup>,
}

/// The origin of a peer's program.
#[derive(Debug)]
enum Program {
    /// The program under test.
    Subject,
    /// Another Tidegate, which the user names.
    Given,
    /// Our own floors, see [`crate::floor`].
    Floor,
    /// The first of these names that is on PATH.
    Installed { names: &'static [&'static str], version: &'static str, how: &'static str },
    /// A module that the Python of the run has, or its interpreter; and what has to be there.
    Python { module: Option<&'static str>, needs: &'static [&'static str] },
    /// Built from a source in crates/bench/peers/.
    Built(&'static sources::Source),
}

impl Program {
    /// Returns the name on the command line.
    fn name(&self, peer: &'static str) -> &'static str {
        match self {
            Self::Installed { names: [name, ..], .. } => name,
            Self::Floor => "tidegate bench floor",
            Self::Subject | Self::Given => "tidegate",
            Self::Python { module: Some(module), .. } => module,
            Self::Python { module: None, .. } => "python",
            Self::Installed { .. } | Self::Built(_) => peer,
        }
    }
}

/// The role of a server in a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Responds to [`HELLO_PATH`] with [`HELLO_BODY`] as text/plain.
    Hello,
    /// Passes everything on to one backend, keeping connections to it or closing each.
    Gateway { backend: SocketAddr, keep: bool },
    /// The same with keep-alive, for clients with a credential.
    Guarded { backend: SocketAddr, by: Guard },
    /// The same with these filters of Tidegate, as its configuration writes them.
    Filtered { backend: SocketAddr, filters: &'static str },
    /// Passes gRPC calls on to one backend, over HTTP/2 without TLS.
    GrpcGateway { backend: SocketAddr },
    /// The same as hello, from a Lua handler.
    LuaHello,
    /// Responds to [`ROUTED_PATH`] as in `hello`, by the last of so many routes of `routed`.
    Routes { count: usize },
    /// Responds to the PING of RESP, inline and as an array.
    Ping,
    /// Has no clients: performs the operation on a document for a time, and ends with a line that
    /// has the count.
    Json { document: PathBuf, operation: Operation, time: Duration },
    /// Serves the files of a directory.
    Files { root: PathBuf },
    /// Caches the backend's response to [`DOCUMENT_PATH`] in memory; the directory has the same
    /// content under that name, and compressed next to it.
    Cached { backend: SocketAddr, root: PathBuf, asked: CacheRequest },
    /// Responds to [`DOCUMENT_PATH`] with that file, which it has read into memory.
    Canned { file: PathBuf },
    /// Serves an application.
    App(App),
    /// A gateway in front of [`App::AsgiHello`].
    AppGateway,
    /// Keeps what [`App::AsgiDocument`] responds and serves it from memory. A server without a
    /// application has a backend and a directory as in `Cached`.
    AppCached { backend: SocketAddr, root: PathBuf },
    /// Has no clients: calls [`App::FastApi`] for a time, and ends with a line that has the count.
    AppLoop { time: Duration },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Decode,
    Encode,
}

/// Returns the path of a route that is not requested, up to its parameter: services with versions,
/// as in a gateway.
fn routed(number: usize) -> String {
    format!("/api/v{}/service-{number:05}/items/", number % 3)
}

impl Role {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Gateway { keep: true, .. } => "gateway, kept-alive",
            Self::Gateway { keep: false, .. } => "gateway, not kept-alive",
            Self::Guarded { by, .. } => by.role(),
            Self::Filtered { .. } => "gateway with other filters",
            Self::GrpcGateway { .. } => "gateway of gRPC",
            Self::LuaHello => "hello from a Lua handler",
            Self::Routes { .. } => "many routes",
            Self::Ping => "ping",
            Self::Json { operation: Operation::Decode, .. } => "json, decoding",
            Self::Json { operation: Operation::Encode, .. } => "json, encoding",
            Self::Files { .. } => "files",
            Self::Cached { asked: CacheRequest::Gzip, .. } => "cache, gzip",
            Self::Cached { asked: CacheRequest::Plain, .. } => "cache, identity",
            Self::Cached { asked: CacheRequest::Small, .. } => "cache, small",
            Self::Cached { asked: CacheRequest::Many, .. } => "cache on disk",
            Self::Canned { .. } => "a file from memory",
            Self::App(app) => app.name(),
            Self::AppGateway => "gateway, hello by ASGI",
            Self::AppCached { .. } => "cache, a document by ASGI",
            Self::AppLoop { .. } => "an endpoint of FastAPI, called in a loop",
        }
    }
}

/// Files in [`Site::certificates`]; all are PEM.
pub(crate) const CERTIFICATE: &str = "certificate.pem";
pub(crate) const PRIVATE_KEY: &str = "key.pem";
/// The same in one file.
pub(crate) const CERTIFICATE_AND_KEY: &str = "both.pem";

/// The protocol between client and server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, or what the role says, without TLS.
    #[default]
    Http1,
    /// HTTP/1.1 over TLS 1.3, on connections that stay open, or on one for each request.
    Https { handshakes: Option<Handshakes> },
    /// HTTP/2 by prior knowledge, with so many streams of a connection at a time.
    Http2 { streams: u32 },
}

/// The parameters of a configuration.
#[derive(Clone, Debug)]
pub struct Site {
    pub role: Role,
    pub address: SocketAddr,
    /// The server's own directory: its files are there, and it runs there.
    pub directory: PathBuf,
    pub workers: u32,
    /// Grows with every reload, so that there is something new to load.
    pub revision: u32,
    /// The server must be able to reload.
    pub reloads: bool,
    /// The interpreter of the run.
    pub python: PathBuf,
    pub protocol: Protocol,
    /// The directory of the certificate, where the protocol needs one.
    pub certificates: PathBuf,
}

impl Site {
    /// The first configuration of one server.
    pub fn new(role: Role, address: SocketAddr, directory: PathBuf) -> Self {
        let python = PathBuf::from("python3");
        let certificates = PathBuf::from("CERTIFICATES");
        let (workers, revision, reloads, protocol) = (1, 0, false, Protocol::Http1);
        Self {
            role,
            address,
            directory,
            workers,
            revision,
            reloads,
            python,
            protocol,
            certificates,
        }
    }
}

/// The setup of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Names in the directory, and texts; the first is the configuration.
    files: Vec<(&'static str, String)>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    reload: Option<Reload>,
    /// Arguments and environment that are settings, and the pages that say so.
    notes: Vec<(&'static str, &'static str)>,
    /// Runs the arguments instead of the peer's own program.
    program: Option<Vec<String>>,
    /// Distributions that the Python of the run has to have.
    needs: Vec<&'static str>,
    upstream: Option<UpstreamServer>,
    /// The protocol that it serves; another one has to be requested.
    serves: Protocol,
}

/// A second server behind the first one. It starts earlier, and its CPU counts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UpstreamServer {
    words: Vec<String>,
    /// The socket that it listens on.
    socket: PathBuf,
}

/// How a server is notified of changed files.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reload {
    Signal(i32),
    /// Runs its own program with these arguments.
    Run(Vec<String>),
}

impl Setup {
    fn new(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
        Self { arguments, ..Self::default() }
    }

    fn file(mut self, name: &'static str, text: String) -> Self {
        self.files.push((name, text));
        self
    }

    fn environment(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }

    fn serves(mut self, protocol: Protocol) -> Self {
        self.serves = protocol;
        self
    }

    /// Adds the documentation page of a setting that is in no file.
    fn note(mut self, setting: &'static str, page: &'static str) -> Self {
        self.notes.push((setting, page));
        self
    }

    fn reload(mut self, reload: Reload) -> Self {
        self.reload = Some(reload);
        self
    }
}

/// All peers, Tidegate and the floor first.
pub const ALL: &[&Peer] = &[
    &tidegate::PEER,
    &floor::PEER,
    &baseline::PEER,
    &nginx::PEER,
    &haproxy::PEER,
    &h2o::PEER,
    &caddy::PEER,
    &envoy::PEER,
    &varnish::PEER,
    &pike::PEER,
    &granian::PEER,
    &granian::ONE_THREAD,
    &uvicorn::PEER,
    &hypercorn::PEER,
    &gunicorn::PEER,
    &gunicorn::GEVENT,
    &fastpysgi::PEER,
    &nginx_granian::PEER,
    &bare_loop::PEER,
    &redis::PEER,
    &silly::PEER,
    &lua_cjson::PEER,
    &sources::GO_NET,
    &sources::LIBUV,
    &sources::MIO,
];

/// The other Tidegate of `--against`; only in runs for which its program is given.
pub(crate) const OTHER: &Peer = &against::PEER;

/// The peer of that name.
pub fn named(name: &str) -> Option<&'static Peer> {
    ALL.iter().copied().find(|peer| peer.name == name)
}

impl Peer {
    /// True if the peer supports the role.
    pub fn can(&self, site: &Site) -> bool {
        self.setup(site).is_some_and(|setup| !site.reloads || setup.reload.is_some())
    }

    /// Returns the command line and files, if it supports role and protocol.
    fn setup(&self, site: &Site) -> Option<Setup> {
        (self.setup)(site).filter(|setup| setup.serves == site.protocol)
    }

    /// Distributions that the Python of the run has to have for this.
    pub(crate) fn needs(&self, site: &Site) -> Vec<&'static str> {
        self.setup(site).map_or_else(Vec::new, |setup| setup.needs)
    }

    /// Returns true for the small servers whose source is in this repository.
    pub fn is_built(&self) -> bool {
        matches!(self.program, Program::Built(_))
    }

    /// Every configuration it is run with, as `--print-config` shows them.
    pub fn configurations(&self) -> String {
        let directory = PathBuf::from("DIRECTORY");
        let backend = SocketAddr::from(([127, 0, 0, 1], 9000));
        let roles = [
            Role::Hello,
            Role::Gateway { backend, keep: true },
            Role::Gateway { backend, keep: false },
            Role::LuaHello,
            Role::Routes { count: 5 },
            Role::Ping,
            Role::Json {
                document: directory.join("records.json"),
                operation: Operation::Decode,
                time: Duration::from_secs(1),
            },
            Role::Files { root: directory.join("files") },
            Role::Cached { backend, root: directory.join("files"), asked: CacheRequest::Gzip },
            Role::Cached { backend, root: directory.join("files"), asked: CacheRequest::Plain },
            Role::Cached { backend, root: directory.join("files"), asked: CacheRequest::Many },
            Role::AppGateway,
            Role::AppCached { backend, root: directory.join("files") },
            Role::AppLoop { time: Duration::from_secs(1) },
        ];
        let guarded = Guard::ALL.map(|by| Role::Guarded { backend, by });
        let roles = roles.into_iter().chain(guarded).chain(App::ALL.map(Role::App));
        let roles = roles.map(|role| (role, Protocol::Http1));
        let https = Protocol::Https { handshakes: None };
        let proxied = Role::Gateway { backend, keep: true };
        let files = Role::Files { root: directory.join("files") };
        let secured = [Role::Hello, proxied.clone(), files];
        let roles = roles.chain(secured.map(|role| (role, https)));
        let streams = [Role::Hello, proxied, Role::GrpcGateway { backend }];
        let roles = roles.chain(streams.map(|role| (role, Protocol::Http2 { streams: 10 })));
        let mut text = String::new();
        for (role, protocol) in roles {
            let address = SocketAddr::from(([127, 0, 0, 1], 8080));
            let site = Site { protocol, ..Site::new(role, address, directory.clone()) };
            if let Some(setup) = self.setup(&site) {
                let line = setup.typed(&[self.program.name(self.name).to_owned()]);
                let over = match protocol {
                    Protocol::Http1 => "",
                    Protocol::Https { .. } => " over TLS",
                    Protocol::Http2 { .. } => " over HTTP/2",
                };
                let (name, role) = (self.name, site.role.name());
                text += &format!("### {name}: {role}{over}\n{line}\n\n{}\n", setup.text());
            }
        }
        text
    }
}

impl Setup {
    /// Returns the command line; `program` is the program and its first arguments.
    fn line(&self, program: &[String]) -> process::Line {
        let program = self.program.as_deref().unwrap_or(program);
        let words = program.iter().chain(&self.arguments).cloned().collect();
        process::Line { words, environment: self.environment.clone() }
    }

    /// Returns the command line as text, with its redirections.
    fn typed(&self, program: &[String]) -> String {
        let line = self.line(program).typed();
        match &self.upstream {
            Some(upstream) => format!("{} & {line}", upstream.line().typed()),
            None => line,
        }
    }

    /// Runs as this module of Python instead of its own program.
    fn module(mut self, python: &Path, module: &str) -> Self {
        let words = [&python.display().to_string(), "-m", module].map(str::to_owned);
        self.program = Some(words.into());
        self
    }

    /// The pages of the command line's settings, and the files, one after the other.
    fn text(&self) -> String {
        let notes = self.notes.iter().map(|(setting, page)| format!("# {setting}: {page}\n"));
        let files = self.files.iter();
        let files = files.map(|(name, text)| format!("# file {name}\n{}\n", text.trim()));
        notes.chain(files).collect()
    }
}

impl UpstreamServer {
    fn line(&self) -> process::Line {
        process::Line { words: self.words.clone(), environment: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn names_are_distinct_and_every_setting_has_its_page() {
        let mut names: Vec<&str> = ALL.iter().map(|peer| peer.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for peer in ALL.iter().filter(|peer| !matches!(peer.name, "floor") && !peer.is_built()) {
            let text = peer.configurations();
            assert!(text.contains("### "), "{} can be nothing", peer.name);
            assert!(text.contains("https://") || text.contains("docs/"), "{}: {text}", peer.name);
        }
    }
}
