//! The scope of a request: ASGI, "HTTP Connection Scope" and "WebSocket Connection Scope".
//!
//! Owns the objects shared by all requests: template dictionaries, and the objects of the clients'
//! and the listener's address.

use message::Scheme;
use net::{Bind, Peer};
use offload::Head;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use pyo3::{IntoPyObjectExt, intern};
use wire::{Method, Version};

use super::header_pairs::HeaderPairs;
use super::tls_extension::TlsExtension;
use crate::clients::{Clients, address_of};
use crate::gil::GilCell;
use crate::path::decoded;

/// The version of the specification.
const SPEC_VERSION: &str = "2.5";

/// Builds scopes.
pub(super) struct Scopes {
    http: Template,
    websocket: Template,
    headers: HeaderPairs,
    root_path: String,
    state: Option<Py<PyDict>>,
    clients: Clients,
    last_server: GilCell<Option<(Bind, Py<PyAny>)>>,
    tls: TlsExtension,
}

impl Scopes {
    pub(super) fn new(
        py: Python<'_>,
        root_path: String,
        state: Option<Py<PyDict>>,
    ) -> PyResult<Scopes> {
        let has_state = state.is_some();
        let extensions =
            ["http.response.pathsend", "http.response.trailers", "http.response.early_hint"];
        let http = Template::new(py, "http", &root_path, has_state, &extensions)?;
        let extensions = ["websocket.http.response"];
        let websocket = Template::new(py, "websocket", &root_path, has_state, &extensions)?;
        Ok(Scopes {
            http,
            websocket,
            headers: HeaderPairs::new(py),
            root_path,
            state,
            clients: Clients::new(),
            last_server: GilCell::default(),
            tls: TlsExtension::default(),
        })
    }

    pub(super) fn http<'py>(&self, py: Python<'py>, head: &Head) -> PyResult<Bound<'py, PyDict>> {
        let scope = self.http.copy(py)?;
        // The template has the most frequent values.
        if head.method != Method::Get {
            scope.set_item(intern!(py, "method"), head.method.as_str())?;
        }
        if head.scheme == Scheme::Https {
            scope.set_item(intern!(py, "scheme"), intern!(py, "https"))?;
        }
        self.fill(&scope, head)?;
        Ok(scope)
    }

    pub(super) fn websocket<'py>(
        &self,
        py: Python<'py>,
        head: &Head,
    ) -> PyResult<Bound<'py, PyDict>> {
        let scope = self.websocket.copy(py)?;
        let scheme = match head.scheme {
            Scheme::Http => intern!(py, "ws"),
            Scheme::Https => intern!(py, "wss"),
        };
        scope.set_item(intern!(py, "scheme"), scheme)?;
        let offered = head.headers.get_all(wire::Known::SecWebSocketProtocol);
        let names = offered.flat_map(|value| value.split(|byte| *byte == b','));
        let subprotocols = PyList::empty(py);
        for name in names {
            subprotocols.append(String::from_utf8_lossy(name.trim_ascii()))?;
        }
        scope.set_item(intern!(py, "subprotocols"), subprotocols)?;
        self.fill(&scope, head)?;
        Ok(scope)
    }

    /// Sets the keys that both kinds have.
    fn fill(&self, scope: &Bound<'_, PyDict>, head: &Head) -> PyResult<()> {
        let py = scope.py();
        match head.version {
            Version::Http10 => scope.set_item(intern!(py, "http_version"), intern!(py, "1.0"))?,
            Version::Http11 => {}
            Version::Http2 => scope.set_item(intern!(py, "http_version"), intern!(py, "2"))?,
        }
        let raw = head.target.raw_path();
        if self.root_path.is_empty() {
            scope.set_item(intern!(py, "path"), &*decoded(&head.target))?;
            scope.set_item(intern!(py, "raw_path"), PyBytes::new(py, raw))?;
        } else {
            // As in uvicorn, the path begins with the application's mount point.
            let path = [&self.root_path, &*decoded(&head.target)].concat();
            scope.set_item(intern!(py, "path"), path)?;
            let raw = [self.root_path.as_bytes(), raw].concat();
            scope.set_item(intern!(py, "raw_path"), PyBytes::new(py, &raw))?;
        }
        if let Some(query) = head.target.query() {
            scope.set_item(intern!(py, "query_string"), PyBytes::new(py, query))?;
        }
        scope.set_item(intern!(py, "headers"), self.headers.list(py, &head.headers)?)?;
        scope.set_item(intern!(py, "client"), self.client(py, head)?)?;
        scope.set_item(intern!(py, "server"), self.server(py, &head.local)?)?;
        if let Some(tls) = &head.tls {
            self.tls.add_to(scope, tls)?;
        }
        if let Some(state) = &self.state {
            // "A copy of the namespace": requests do not see each other's additions.
            scope.set_item(intern!(py, "state"), state.bind(py).copy()?)?;
        }
        Ok(())
    }

    fn client<'py>(&self, py: Python<'py>, head: &Head) -> PyResult<Bound<'py, PyAny>> {
        if matches!(head.peer, Peer::Unix) && head.client_ip.is_loopback() {
            return Ok(py.None().into_bound(py));
        }
        let client = self.clients.get(py, address_of(head), |address| {
            (address.ip().to_canonical().to_string(), address.port()).into_pyobject(py)
        })?;
        Ok(client.into_any())
    }

    fn server<'py>(&self, py: Python<'py>, local: &Bind) -> PyResult<Bound<'py, PyAny>> {
        let mut last = self.last_server.get();
        match &*last {
            Some((known, server)) if known == local => Ok(server.bind(py).clone()),
            _ => {
                let server = match local {
                    Bind::Tcp(address) => {
                        let ip = address.ip().to_canonical().to_string();
                        (ip, address.port()).into_bound_py_any(py)?
                    }
                    Bind::Unix(path) => {
                        (path.to_string_lossy(), py.None()).into_bound_py_any(py)?
                    }
                };
                *last = Some((local.clone(), server.clone().unbind()));
                Ok(server)
            }
        }
    }
}

/// A scope with the keys of a kind, so that no copy grows while it is filled, and with the values
/// that most requests have.
struct Template {
    scope: Py<PyDict>,
    asgi: Py<PyDict>,
    extensions: Py<PyDict>,
}

impl Template {
    fn new(
        py: Python<'_>,
        kind: &str,
        root_path: &str,
        has_state: bool,
        extensions: &[&str],
    ) -> PyResult<Template> {
        let text = |text: &str| PyString::intern(py, text);
        let asgi = PyDict::new(py);
        asgi.set_item(text("version"), text("3.0"))?;
        asgi.set_item(text("spec_version"), text(SPEC_VERSION))?;
        let scope = PyDict::new(py);
        scope.set_item(text("type"), text(kind))?;
        scope.set_item(text("http_version"), text("1.1"))?;
        scope.set_item(text("scheme"), text("http"))?;
        scope.set_item(text("root_path"), root_path)?;
        scope.set_item(text("query_string"), PyBytes::new(py, b""))?;
        let of_kind = if kind == "http" { "method" } else { "subprotocols" };
        scope.set_item(text(of_kind), text("GET"))?;
        for name in ["asgi", "client", "server", "path", "raw_path", "headers", "extensions"] {
            scope.set_item(text(name), py.None())?;
        }
        if has_state {
            scope.set_item(text("state"), py.None())?;
        }
        let named = PyDict::new(py);
        for name in extensions {
            named.set_item(text(name), PyDict::new(py))?;
        }
        let (asgi, extensions) = (asgi.unbind(), named.unbind());
        Ok(Template { scope: scope.unbind(), asgi, extensions })
    }

    /// Returns a scope that the application may change, and with it its nested dictionaries.
    fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let scope = self.scope.bind(py).copy()?;
        scope.set_item(intern!(py, "asgi"), self.asgi.bind(py).copy()?)?;
        scope.set_item(intern!(py, "extensions"), self.extensions.bind(py).copy()?)?;
        Ok(scope)
    }
}
