//! Shared `bytes` objects for field names.
//!
//! Applications receive names in lower case (ASGI, "HTTP connection scope").

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wire::Known;

/// True for fields whose values repeat across requests and are not secret: their objects are
/// reused.
pub(crate) fn is_repeated(known: Known) -> bool {
    matches!(
        known,
        Known::Host
            | Known::UserAgent
            | Known::Accept
            | Known::AcceptEncoding
            | Known::AcceptLanguage
            | Known::Connection
            | Known::ContentType
    )
}

/// The known names, by `Known::index`.
pub(crate) struct FieldNames(Vec<Py<PyBytes>>);

impl FieldNames {
    pub(crate) fn new(py: Python<'_>) -> FieldNames {
        let lower = |known: &Known| known.as_str().to_ascii_lowercase();
        let name = |known: &Known| PyBytes::new(py, lower(known).as_bytes()).unbind();
        FieldNames(Known::ALL.iter().map(name).collect())
    }

    /// Returns the name of a field in lower case.
    pub(crate) fn get<'py>(
        &self,
        py: Python<'py>,
        known: Option<Known>,
        name: &[u8],
    ) -> Bound<'py, PyBytes> {
        match known {
            Some(known) => self.0[known.index()].bind(py).clone(),
            None => PyBytes::new(py, &name.to_ascii_lowercase()),
        }
    }
}
