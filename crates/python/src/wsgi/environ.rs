//! `environ`: PEP 3333, "environ Variables".
//!
//! Owns the objects shared by all requests: a template dictionary, the variable names, and frequent
//! values. Promises to drop a header whose name contains an underscore: it could be mistaken for
//! one that a proxy has checked.

use std::net::SocketAddr;

use message::{Headers, Scheme};
use net::Bind;
use offload::Head;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use wire::{Known, Method, Version};

use super::text::{bytes, text};
use crate::clients::{Clients, address_of};
use crate::field_names::is_repeated;
use crate::gil::GilCell;
use crate::path::decoded_bytes;

/// The variables shared by all requests of an application.
pub(super) struct Common<'py> {
    pub(super) root_path: String,
    pub(super) multithread: bool,
    pub(super) multiprocess: bool,
    pub(super) errors: Bound<'py, PyAny>,
    pub(super) file_wrapper: Bound<'py, PyAny>,
    /// The input of a request without a body.
    pub(super) no_input: Bound<'py, PyAny>,
}

/// Builds `environ` dictionaries.
pub(super) struct Environs {
    /// Contains every variable that a request always has, so that a copy does not grow.
    template: Py<PyDict>,
    keys: Keys,
    /// `HTTP_…`, by `Known::index`.
    names: Vec<Py<PyString>>,
    root_path: Vec<u8>,
    clients: Clients,
    last: GilCell<LastValues>,
}

macro_rules! keys {
    ($($key:ident = $text:literal,)*) => {
        struct Keys { $($key: Py<PyString>,)* }

        impl Keys {
            fn new(py: Python<'_>) -> Keys {
                Keys { $($key: PyString::intern(py, $text).unbind(),)* }
            }
        }
    };
}

keys! {
    method = "REQUEST_METHOD",
    path_info = "PATH_INFO",
    query = "QUERY_STRING",
    raw_uri = "RAW_URI",
    request_uri = "REQUEST_URI",
    server_name = "SERVER_NAME",
    server_port = "SERVER_PORT",
    protocol = "SERVER_PROTOCOL",
    address = "REMOTE_ADDR",
    port = "REMOTE_PORT",
    content_length = "CONTENT_LENGTH",
    scheme = "wsgi.url_scheme",
    https = "HTTPS",
    input = "wsgi.input",
    early_hints = "wsgi.early_hints",
}

/// Values of the previous request: the next one often has the same.
#[derive(Default)]
struct LastValues {
    server: Option<(Bind, Scheme, Py<PyString>, Py<PyString>)>,
    /// Values of the fields that [`is_repeated`] names, by `Known::index`.
    values: Vec<Option<Py<PyString>>>,
}

impl Environs {
    pub(super) fn new(py: Python<'_>, common: Common<'_>) -> PyResult<Environs> {
        let name = |known: &Known| {
            let name = match known {
                Known::ContentType => "CONTENT_TYPE".to_owned(),
                Known::ContentLength => "CONTENT_LENGTH".to_owned(),
                other => format!("HTTP_{}", variable(other.as_str().as_bytes())),
            };
            PyString::intern(py, &name).unbind()
        };
        let values = Known::ALL.iter().map(|_| None).collect();
        Ok(Environs {
            keys: Keys::new(py),
            names: Known::ALL.iter().map(name).collect(),
            root_path: common.root_path.trim_end_matches('/').as_bytes().to_vec(),
            template: template(py, common)?.unbind(),
            clients: Clients::new(),
            last: GilCell::new(LastValues { values, ..LastValues::default() }),
        })
    }

    /// Returns the variables of a request. `input` is its body, if it has one; `early_hints` is
    /// bound to its reply.
    pub(super) fn environ<'py>(
        &self,
        py: Python<'py>,
        head: &Head,
        input: Option<Bound<'py, PyAny>>,
        early_hints: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let environ = self.template.bind(py).copy()?;
        let keys = &self.keys;
        match &head.method {
            Method::Get => {}
            // CPython never frees an interned string, and a client may choose any name.
            Method::Other(name) => environ.set_item(&keys.method, text(py, name)?)?,
            known => environ.set_item(&keys.method, PyString::intern(py, known.as_str()))?,
        }
        // The template has the most frequent one.
        match head.version {
            Version::Http10 => environ.set_item(&keys.protocol, pyo3::intern!(py, "HTTP/1.0"))?,
            Version::Http11 => {}
            Version::Http2 => environ.set_item(&keys.protocol, pyo3::intern!(py, "HTTP/2"))?,
        }
        if head.scheme == Scheme::Https {
            environ.set_item(&keys.scheme, pyo3::intern!(py, "https"))?;
            environ.set_item(&keys.https, pyo3::intern!(py, "on"))?;
        }
        self.target(&environ, head)?;
        self.addresses(&environ, head)?;
        if let Some(input) = input {
            environ.set_item(&keys.input, input)?;
        }
        environ.set_item(&keys.early_hints, early_hints)?;
        self.fields(&environ, &head.headers)?;
        // A body without a declared length was read completely, so its length is known. Django and
        // others read none without this variable.
        if let Some(length @ 1..) = head.body_length
            && !head.headers.contains(Known::ContentLength)
        {
            environ.set_item(&keys.content_length, length.to_string())?;
        }
        Ok(environ)
    }

    /// Sets the variables of the request target.
    fn target(&self, environ: &Bound<'_, PyDict>, head: &Head) -> PyResult<()> {
        let py = environ.py();
        let keys = &self.keys;
        let raw = text(py, head.target.raw())?;
        let path = decoded_bytes(&head.target);
        let path = without_mount_point(&self.root_path, &path);
        if path == head.target.raw() {
            environ.set_item(&keys.path_info, &raw)?;
        } else {
            environ.set_item(&keys.path_info, text(py, path)?)?;
        }
        if let Some(query) = head.target.query()
            && !query.is_empty()
        {
            environ.set_item(&keys.query, text(py, query)?)?;
        }
        environ.set_item(&keys.raw_uri, &raw)?;
        environ.set_item(&keys.request_uri, &raw)
    }

    /// Sets the variables of the client and the server.
    fn addresses(&self, environ: &Bound<'_, PyDict>, head: &Head) -> PyResult<()> {
        let py = environ.py();
        let keys = &self.keys;
        let client = self.clients.get(py, address_of(head), |address| {
            let ip = text(py, address.ip().to_canonical().to_string().as_bytes())?;
            PyTuple::new(py, [ip, number(py, address.port())?])
        })?;
        environ.set_item(&keys.address, client.get_borrowed_item(0)?)?;
        environ.set_item(&keys.port, client.get_borrowed_item(1)?)?;
        let mut last = self.last.get();
        // On a Unix socket the port is that of the scheme, which a trusted proxy names.
        let is_known = |(local, scheme, ..): &(Bind, Scheme, _, _)| {
            *local == head.local && *scheme == head.scheme
        };
        if !last.server.as_ref().is_some_and(is_known) {
            let (name, port) = match &head.local {
                Bind::Tcp(address) => (ip_text(*address), address.port()),
                Bind::Unix(_) => ("localhost".to_owned(), default_port(head.scheme)),
            };
            let name = PyString::new(py, &name).unbind();
            let port = number(py, port)?.unbind();
            last.server = Some((head.local.clone(), head.scheme, name, port));
        }
        if let Some((.., name, port)) = &last.server {
            environ.set_item(&keys.server_name, name)?;
            environ.set_item(&keys.server_port, port)?;
        }
        Ok(())
    }

    fn fields(&self, environ: &Bound<'_, PyDict>, headers: &Headers) -> PyResult<()> {
        let py = environ.py();
        let mut last = self.last.get();
        let mut seen = [false; Known::COUNT];
        for field in headers.iter() {
            let Some(known) = field.known else {
                if !field.name.contains(&b'_') {
                    let name = ["HTTP_", &variable(field.name)].concat();
                    let name = PyString::new(py, &name);
                    let before = environ.get_item(&name)?;
                    put(environ, &name, before, b",", field.value)?;
                }
                continue;
            };
            if known == Known::TransferEncoding {
                continue;
            }
            let name = self.names[known.index()].bind(py);
            if std::mem::replace(&mut seen[known.index()], true) {
                let separator: &[u8] = if known == Known::Cookie { b"; " } else { b"," };
                put(environ, name, environ.get_item(name)?, separator, field.value)?;
            } else if is_repeated(known) {
                environ
                    .set_item(name, reused(py, &mut last.values[known.index()], field.value)?)?;
            } else {
                environ.set_item(name, text(py, field.value)?)?;
            }
        }
        Ok(())
    }
}

/// The variables that every request has.
fn template<'py>(py: Python<'py>, common: Common<'_>) -> PyResult<Bound<'py, PyDict>> {
    let environ = PyDict::new(py);
    let root_path = text(py, common.root_path.trim_end_matches('/').as_bytes())?;
    for (name, value) in [
        ("REQUEST_METHOD", "GET"),
        ("PATH_INFO", "/"),
        ("QUERY_STRING", ""),
        ("RAW_URI", ""),
        ("REQUEST_URI", ""),
        ("SERVER_NAME", ""),
        ("SERVER_PORT", ""),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SERVER_SOFTWARE", concat!("tidegate/", env!("CARGO_PKG_VERSION"))),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("REMOTE_ADDR", ""),
        ("REMOTE_PORT", ""),
        ("wsgi.url_scheme", "http"),
    ] {
        environ.set_item(PyString::intern(py, name), PyString::intern(py, value))?;
    }
    environ.set_item("SCRIPT_NAME", root_path)?;
    environ.set_item("wsgi.version", (1, 0))?;
    environ.set_item("wsgi.input", common.no_input)?;
    environ.set_item("wsgi.errors", common.errors)?;
    environ.set_item("wsgi.multithread", common.multithread)?;
    environ.set_item("wsgi.multiprocess", common.multiprocess)?;
    environ.set_item("wsgi.run_once", false)?;
    environ.set_item("wsgi.input_terminated", true)?;
    environ.set_item("wsgi.file_wrapper", common.file_wrapper)?;
    environ.set_item("wsgi.early_hints", environ.py().None())?;
    Ok(environ)
}

/// Converts a field name to the form of a variable.
fn variable(name: &[u8]) -> String {
    let upper = |byte: &u8| match byte {
        b'-' => '_',
        other => char::from(other.to_ascii_uppercase()),
    };
    name.iter().map(upper).collect()
}

/// Appends to a variable that may have a value already.
fn put(
    environ: &Bound<'_, PyDict>,
    name: &Bound<'_, PyString>,
    before: Option<Bound<'_, PyAny>>,
    separator: &[u8],
    value: &[u8],
) -> PyResult<()> {
    let py = environ.py();
    let before = before.and_then(|before| before.cast_into::<PyString>().ok());
    match before.as_ref().and_then(bytes) {
        Some(before) => environ.set_item(name, text(py, &[before, separator, value].concat())?),
        None => environ.set_item(name, text(py, value)?),
    }
}

/// Returns the string of the previous request if the value is the same.
fn reused<'py>(
    py: Python<'py>,
    last: &mut Option<Py<PyString>>,
    value: &[u8],
) -> PyResult<Bound<'py, PyString>> {
    if let Some(known) = last {
        let known = known.bind(py);
        if bytes(known) == Some(value) {
            return Ok(known.clone());
        }
    }
    let fresh = text(py, value)?;
    *last = Some(fresh.clone().unbind());
    Ok(fresh)
}

/// The path without the mount point, which a proxy may have stripped already.
fn without_mount_point<'a>(root: &[u8], path: &'a [u8]) -> &'a [u8] {
    match path.strip_prefix(root) {
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => rest,
        _ => path,
    }
}

fn number(py: Python<'_>, number: u16) -> PyResult<Bound<'_, PyString>> {
    text(py, itoa::Buffer::new().format(number).as_bytes())
}

fn ip_text(address: SocketAddr) -> String {
    address.ip().to_canonical().to_string()
}

fn default_port(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    }
}
