//! The `headers` of a scope: a list of pairs of bytes, names in lower case.
//!
//! A pair cannot be changed, so a field that has the same value in most requests has the same pair.

use message::Headers;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use wire::Known;

use crate::field_names::{FieldNames, is_repeated};
use crate::gil::GilCell;

/// Builds lists of headers.
pub(super) struct HeaderPairs {
    names: FieldNames,
    /// The latest pairs of the fields that [`is_repeated`] names, by `Known::index`.
    latest: GilCell<Vec<Option<Py<PyTuple>>>>,
}

impl HeaderPairs {
    pub(super) fn new(py: Python<'_>) -> HeaderPairs {
        let latest = Known::ALL.iter().map(|_| None).collect();
        HeaderPairs { names: FieldNames::new(py), latest: GilCell::new(latest) }
    }

    pub(super) fn list<'py>(
        &self,
        py: Python<'py>,
        headers: &Headers,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut pairs = Vec::with_capacity(headers.len());
        for field in headers.iter() {
            pairs.push(match field.known.filter(|known| is_repeated(*known)) {
                Some(known) => self.repeated(py, known, field.value)?,
                None => self.pair(py, field.known, field.name, field.value)?,
            });
        }
        PyList::new(py, pairs)
    }

    fn pair<'py>(
        &self,
        py: Python<'py>,
        known: Option<Known>,
        name: &[u8],
        value: &[u8],
    ) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, [self.names.get(py, known, name), PyBytes::new(py, value)])
    }

    /// Returns the latest pair of a field if that has the value, or a new one.
    fn repeated<'py>(
        &self,
        py: Python<'py>,
        known: Known,
        value: &[u8],
    ) -> PyResult<Bound<'py, PyTuple>> {
        let latest = self.latest.get()[known.index()].as_ref().map(|pair| pair.bind(py).clone());
        if let Some(pair) = latest
            && let Ok(item) = pair.get_borrowed_item(1)
            && item.cast::<PyBytes>().is_ok_and(|item| item.as_bytes() == value)
        {
            return Ok(pair);
        }
        let pair = self.pair(py, Some(known), &[], value)?;
        let before = self.latest.get()[known.index()].replace(pair.clone().unbind());
        drop(before);
        Ok(pair)
    }
}
