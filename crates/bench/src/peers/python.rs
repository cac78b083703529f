//! Python applications, and the interpreter that all servers for them share.
//!
//! Owns the applications and their requirements. Promises one interpreter for all servers of a run,
//! so that CPython is the same for all, and one line for a missing package. Never installs: `make
//! bench-peers` does.

use super::executables::{on_path, run_to_end};
use super::{CERTIFICATE, PRIVATE_KEY, Protocol, Role, Setup, Site};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time-out for the versions.
const VERSIONS_WAIT: Duration = Duration::from_secs(20);
/// Prints versions, or the missing distributions.
const VERSIONS: &str = "\
import sys, platform, importlib.metadata as installed
found, missing = [], []
for name in sys.argv[1:]:
    try: found.append(f'{name} {installed.version(name)}')
    except installed.PackageNotFoundError: missing.append(name)
if missing: print('MISSING', ', '.join(missing))
else: print(', '.join([*found, f'CPython {platform.python_version()}']))
";

pub(super) const HOW: &str = "make bench-peers, or --python";
/// The path of the FastAPI endpoint.
pub(crate) const ITEM_PATH: &str = "/items/42";
pub(crate) const ITEM: &str = r#"{"number":42,"name":"tide","price":9.5,"tags":["low","high"]}"#;

const ASGI: (&str, &str) = ("bench_asgi.py", include_str!("../../peers/python/bench_asgi.py"));
const WSGI: (&str, &str) = ("bench_wsgi.py", include_str!("../../peers/python/bench_wsgi.py"));
const FASTAPI: (&str, &str) =
    ("bench_fastapi.py", include_str!("../../peers/python/bench_fastapi.py"));
const BARE_LOOP: (&str, &str) = ("bare_loop.py", include_str!("../../peers/python/bare_loop.py"));

/// An application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum App {
    AsgiHello,
    AsgiEcho,
    AsgiSleep,
    /// A document that may be kept.
    AsgiDocument,
    WsgiHello,
    WsgiEcho,
    WsgiSleep,
    /// The same two, each request in a greenlet.
    GeventHello,
    GeventSleep,
    FastApi,
    WebSocket,
    /// Hello by whichever interface a server is published with.
    Page,
}

/// The interface between a server and an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interface {
    Asgi,
    Wsgi,
}

impl App {
    pub const ALL: [Self; 12] = [
        Self::AsgiHello,
        Self::AsgiEcho,
        Self::AsgiSleep,
        Self::AsgiDocument,
        Self::WsgiHello,
        Self::WsgiEcho,
        Self::WsgiSleep,
        Self::GeventHello,
        Self::GeventSleep,
        Self::FastApi,
        Self::WebSocket,
        Self::Page,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AsgiHello => "hello by ASGI",
            Self::AsgiEcho => "echo by ASGI",
            Self::AsgiSleep => "10 ms of sleep by ASGI",
            Self::AsgiDocument => "a document by ASGI",
            Self::WsgiHello => "hello by WSGI",
            Self::WsgiEcho => "echo by WSGI",
            Self::WsgiSleep => "10 ms of sleep by WSGI",
            Self::GeventHello => "hello by greenlets",
            Self::GeventSleep => "10 ms of sleep by greenlets",
            Self::FastApi => "an endpoint of FastAPI",
            Self::WebSocket => "echo over WebSocket",
            Self::Page => "hello by any interface",
        }
    }

    /// `None` for the one that has either.
    pub(super) fn interface(self) -> Option<Interface> {
        match self {
            Self::WsgiHello | Self::WsgiEcho | Self::WsgiSleep => Some(Interface::Wsgi),
            Self::GeventHello | Self::GeventSleep => Some(Interface::Wsgi),
            Self::Page => None,
            _ => Some(Interface::Asgi),
        }
    }

    /// Returns true if servers with that interface can run it.
    pub(super) fn is_of(self, interface: Interface) -> bool {
        self.interface().is_none_or(|only| only == interface)
    }

    /// Returns true if each request runs in a greenlet.
    pub(super) fn has_greenlets(self) -> bool {
        matches!(self, Self::GeventHello | Self::GeventSleep)
    }

    /// `MODULE:NAME`
    pub(super) fn target(self, interface: Interface) -> &'static str {
        match (self, interface) {
            (Self::AsgiHello, _) | (Self::Page, Interface::Asgi) => "bench_asgi:hello",
            (Self::AsgiEcho, _) => "bench_asgi:echo",
            (Self::AsgiSleep, _) => "bench_asgi:sleep",
            (Self::AsgiDocument, _) => "bench_asgi:document",
            (Self::WebSocket, _) => "bench_asgi:websocket",
            (Self::WsgiHello | Self::GeventHello, _) | (Self::Page, Interface::Wsgi) => {
                "bench_wsgi:hello"
            }
            (Self::WsgiEcho, _) => "bench_wsgi:echo",
            (Self::WsgiSleep | Self::GeventSleep, _) => "bench_wsgi:sleep",
            (Self::FastApi, _) => "bench_fastapi:app",
        }
    }

    /// Written into the directory of the server.
    pub(super) fn file(self, interface: Interface) -> (&'static str, String) {
        let (name, text) = match (self, interface) {
            (Self::FastApi, _) => FASTAPI,
            (_, Interface::Asgi) => ASGI,
            (_, Interface::Wsgi) => WSGI,
        };
        (name, text.to_owned())
    }

    /// Returns the packages that it imports.
    fn needs(self) -> &'static [&'static str] {
        if self == Self::FastApi { &["fastapi"] } else { &[] }
    }
}

/// Options for the certificate of a run and its key, where the protocol needs them.
pub(super) fn pair(site: &Site, certificate: &str, key: &str) -> Vec<String> {
    let file = |name: &str| site.certificates.join(name).display().to_string();
    match site.protocol {
        Protocol::Https { .. } => {
            vec![certificate.to_owned(), file(CERTIFICATE), key.to_owned(), file(PRIVATE_KEY)]
        }
        Protocol::Http1 | Protocol::Http2 { .. } => Vec::new(),
    }
}

impl Setup {
    /// Serves this application.
    pub(super) fn app(mut self, app: App, interface: Interface) -> Self {
        let (name, text) = app.file(interface);
        self.files.push((name, text));
        self.needs.extend(app.needs());
        self
    }
}

/// The application without a server, called in a loop: what it costs itself.
pub(super) fn bare_loop(role: &Role) -> Option<Setup> {
    let Role::AppLoop { time } = role else { return None };
    let words = [BARE_LOOP.0, &time.as_secs_f64().to_string(), ITEM, ITEM_PATH];
    let setup = Setup::new(&words).file(BARE_LOOP.0, BARE_LOOP.1.to_owned());
    Some(setup.app(App::FastApi, Interface::Asgi))
}

/// The interpreter to use where none was named: that of `make bench-peers`, or of the machine.
pub fn interpreter() -> Option<PathBuf> {
    let ours = Path::new("target/bench-python/bin/python");
    let ours = ours.exists().then(|| std::path::absolute(ours).ok()).flatten();
    ours.or_else(|| on_path(&["python3"]))
}

/// The directory of the environment that an interpreter belongs to.
pub(super) fn environment_of(python: &Path) -> PathBuf {
    python.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned()
}

/// The versions of these distributions and of the interpreter; the error is half a sentence.
pub(super) fn versions(python: Option<&Path>, distributions: &[&str]) -> Result<String, String> {
    let python = python.ok_or_else(|| format!("no Python: {HOW}"))?.display().to_string();
    let words = [&python, "-c", VERSIONS].into_iter().chain(distributions.iter().copied());
    let words = words.map(str::to_owned).collect();
    let output = run_to_end(words, &std::env::temp_dir(), VERSIONS_WAIT)
        .map_err(|why| format!("cannot be run: {why}"))?;
    match output.trim().strip_prefix("MISSING ") {
        Some(missing) => Err(format!("no {missing} in {python}: {HOW}")),
        None => Ok(output),
    }
}

#[cfg(test)]
mod tests {
    use super::{ASGI, App, BARE_LOOP, Interface, WSGI, bare_loop, versions};
    use crate::peers::executables::on_path;
    use crate::peers::{HELLO_BODY, Role};
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn applications_say_what_is_expected_of_them() {
        for (name, text) in [ASGI, WSGI] {
            assert!(text.contains(&format!("b\"{HELLO_BODY}\"")), "{name}");
        }
        for app in App::ALL {
            for interface in
                [Interface::Asgi, Interface::Wsgi].map(|one| app.is_of(one).then_some(one))
            {
                let Some(interface) = interface else { continue };
                let (module, function) = app.target(interface).split_once(':').unwrap();
                let (name, text) = app.file(interface);
                assert_eq!(name, format!("{module}.py"));
                let defined = [format!("def {function}("), format!("{function} = ")];
                assert!(defined.iter().any(|one| text.contains(one)), "{name}: {function}");
            }
        }
    }

    #[test]
    fn what_an_interpreter_lacks_is_a_line() {
        let why = versions(None, &["granian"]).unwrap_err();
        assert_eq!(why, "no Python: make bench-peers, or --python");
        let why = versions(Some(Path::new("/nowhere/python")), &[]).unwrap_err();
        assert!(why.starts_with("cannot be run: /nowhere/python"), "{why}");
        let Some(python) = on_path(&["python3"]) else {
            eprintln!("skipped: there is no Python");
            return;
        };
        let said = versions(Some(&python), &[]).unwrap();
        assert!(said.starts_with("CPython 3."), "{said}");
        let why = versions(Some(&python), &["no-such-a", "no-such-b"]).unwrap_err();
        assert!(why.starts_with("no no-such-a, no-such-b in /"), "{why}");
    }

    #[test]
    fn the_bare_loop_has_the_application_in_its_directory() {
        let setup = bare_loop(&Role::AppLoop { time: Duration::from_millis(1500) }).unwrap();
        let names: Vec<_> = setup.files.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["bare_loop.py", "bench_fastapi.py"]);
        assert_eq!(setup.arguments[..2], ["bare_loop.py", "1.5"]);
        assert!(BARE_LOOP.1.contains("RESULT") && setup.needs == ["fastapi"]);
        assert_eq!(bare_loop(&Role::Hello), None);
    }
}
