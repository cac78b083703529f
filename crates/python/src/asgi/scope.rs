//! The scope of a request: ASGI, "HTTP Connection Scope" and "WebSocket Connection Scope".
//!
//! Owns the objects shared by all requests: template dictionaries, field names, and the objects of
//! the last client's and the listener's address.

use std::net::SocketAddr;

use message::{Headers, Scheme};
use net::{Bind, Peer};
use offload::Head;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use pyo3::{IntoPyObjectExt, intern};
use wire::{Method, Version};

use super::tls_extension::TlsExtension;
use crate::field_names::FieldNames;
use crate::gil::GilCell;
use crate::path::decoded;

/// The version of the specification.
const SPEC_VERSION: &str = "2.5";

/// Builds scopes.
pub(super) struct Scopes {
    http: Py<PyDict>,
    websocket: Py<PyDict>,
    names: FieldNames,
    root_path: String,
    state: Option<Py<PyDict>>,
    last_client: GilCell<Option<(SocketAddr, Py<PyTuple>)>>,
    last_server: GilCell<Option<(Bind, Py<PyAny>)>>,
    tls: TlsExtension,
    get: Py<PyString>,
}

impl Scopes {
    pub(super) fn new(
        py: Python<'_>,
        root_path: String,
        state: Option<Py<PyDict>>,
    ) -> PyResult<Scopes> {
        let extensions = |names: &[&str]| -> PyResult<Py<PyDict>> {
            let extensions = PyDict::new(py);
            for name in names {
                extensions.set_item(name, PyDict::new(py))?;
            }
            Ok(extensions.unbind())
        };
        let http = template(py, "http", &root_path)?;
        http.set_item(
            "extensions",
            extensions(&[
                "http.response.pathsend",
                "http.response.trailers",
                "http.response.early_hint",
            ])?,
        )?;
        let websocket = template(py, "websocket", &root_path)?;
        websocket.set_item("extensions", extensions(&["websocket.http.response"])?)?;
        Ok(Scopes {
            http: http.unbind(),
            websocket: websocket.unbind(),
            names: FieldNames::new(py),
            root_path,
            state,
            last_client: GilCell::default(),
            last_server: GilCell::default(),
            tls: TlsExtension::default(),
            get: PyString::intern(py, "GET").unbind(),
        })
    }

    pub(super) fn http<'py>(&self, py: Python<'py>, head: &Head) -> PyResult<Bound<'py, PyDict>> {
        let scope = copied(self.http.bind(py))?;
        let method = match &head.method {
            Method::Get => self.get.bind(py).clone(),
            other => PyString::new(py, other.as_str()),
        };
        scope.set_item(intern!(py, "method"), method)?;
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
        let scope = copied(self.websocket.bind(py))?;
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
        // The template has the most frequent one.
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
        let query = head.target.query().unwrap_or_default();
        scope.set_item(intern!(py, "query_string"), PyBytes::new(py, query))?;
        scope.set_item(intern!(py, "headers"), self.headers(py, &head.headers)?)?;
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

    fn headers<'py>(&self, py: Python<'py>, headers: &Headers) -> PyResult<Bound<'py, PyList>> {
        let mut failed = None;
        let pairs = headers.iter().map(|field| {
            let name = self.names.get(py, field.known, field.name);
            PyTuple::new(py, [name, PyBytes::new(py, field.value)])
        });
        let pairs: Vec<_> =
            pairs.filter_map(|pair| pair.map_err(|e| failed = Some(e)).ok()).collect();
        match failed {
            None => PyList::new(py, pairs),
            Some(error) => Err(error),
        }
    }

    fn client<'py>(&self, py: Python<'py>, head: &Head) -> PyResult<Bound<'py, PyAny>> {
        let address = match head.peer {
            Peer::Tcp(peer) if peer.ip().to_canonical() == head.client_ip => peer,
            // A trusted proxy names the client's address, but not its port.
            Peer::Tcp(_) => SocketAddr::new(head.client_ip, 0),
            Peer::Unix if head.client_ip.is_loopback() => return Ok(py.None().into_bound(py)),
            Peer::Unix => SocketAddr::new(head.client_ip, 0),
        };
        let mut last = self.last_client.get();
        match &*last {
            Some((known, client)) if *known == address => Ok(client.bind(py).clone().into_any()),
            _ => {
                let ip = address.ip().to_canonical().to_string();
                let client = (ip, address.port()).into_pyobject(py)?;
                *last = Some((address, client.clone().unbind()));
                Ok(client.into_any())
            }
        }
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

/// Copies a template and its nested dictionaries, so that the application may change the copy.
fn copied<'py>(template: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    let py = template.py();
    let scope = template.copy()?;
    for name in [intern!(py, "asgi"), intern!(py, "extensions")] {
        if let Some(inner) = scope.get_item(name)? {
            scope.set_item(name, inner.cast::<PyDict>()?.copy()?)?;
        }
    }
    Ok(scope)
}

/// The keys that are the same for every request of a kind.
fn template<'py>(py: Python<'py>, kind: &str, root_path: &str) -> PyResult<Bound<'py, PyDict>> {
    let asgi = PyDict::new(py);
    asgi.set_item("version", "3.0")?;
    asgi.set_item("spec_version", SPEC_VERSION)?;
    let scope = PyDict::new(py);
    scope.set_item(intern!(py, "type"), kind)?;
    scope.set_item("asgi", asgi)?;
    scope.set_item(intern!(py, "http_version"), intern!(py, "1.1"))?;
    scope.set_item(intern!(py, "scheme"), intern!(py, "http"))?;
    scope.set_item("root_path", root_path)?;
    Ok(scope)
}
