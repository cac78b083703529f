//! The extension `tls` of a scope: the specification "ASGI TLS Extension", version 0.2.
//!
//! Present only if the client's own connection to Tidegate is TLS, not if a trusted proxy says so.

use net::tls::{PresentedCertificate, TlsInfo, pem};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::gil::GilCell;

/// Builds the extension.
#[derive(Default)]
pub(super) struct TlsExtension {
    /// The certificate that was presented last, as text.
    last_presented: GilCell<Option<(PresentedCertificate, Py<PyString>)>>,
}

impl TlsExtension {
    /// Sets `scope["extensions"]["tls"]`.
    pub(super) fn add_to(&self, scope: &Bound<'_, PyDict>, tls: &TlsInfo) -> PyResult<()> {
        let py = scope.py();
        let Some(extensions) = scope.get_item(intern!(py, "extensions"))? else { return Ok(()) };
        let chain = tls.peer.iter().flat_map(|peer| &peer.chain);
        let chain = PyList::new(py, chain.map(|one| pem(one)).collect::<Vec<_>>())?;
        let name = tls.peer.as_ref().map(|peer| &*peer.details.subject);
        let extension = PyDict::new(py);
        extension.set_item(intern!(py, "server_cert"), self.presented(py, tls))?;
        extension.set_item(intern!(py, "client_cert_chain"), chain)?;
        extension.set_item(intern!(py, "client_cert_name"), name)?;
        // A certificate that cannot be verified ends the handshake.
        extension.set_item(intern!(py, "client_cert_error"), py.None())?;
        extension.set_item(intern!(py, "tls_version"), tls.version)?;
        extension.set_item(intern!(py, "cipher_suite"), tls.cipher)?;
        extensions.set_item(intern!(py, "tls"), extension)
    }

    /// The server's certificate; `None` in a process behind a gateway, which terminates TLS.
    fn presented(&self, py: Python<'_>, tls: &TlsInfo) -> Option<Py<PyString>> {
        let presented = tls.presented.as_ref()?;
        let mut last = self.last_presented.get();
        match &*last {
            Some((known, text)) if known == presented => Some(text.clone_ref(py)),
            _ => {
                let text = PyString::new(py, &pem(presented.der())).unbind();
                *last = Some((presented.clone(), text.clone_ref(py)));
                Some(text)
            }
        }
    }
}
