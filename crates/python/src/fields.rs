//! Header fields of an application's response.
//!
//! Promises that an invalid name or value, such as one with a line break, raises an exception in
//! the application.

use message::Headers;
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;
use wire::Known;

/// All names and values of an early hint together; a frame to the gateway has room for more.
const HINT_BYTES_MAX: usize = 16 * 1024;

/// Checks the fields of an early hint (RFC 8297), which has no content.
pub(crate) fn check_hint(headers: &Headers) -> PyResult<()> {
    check_framing(headers, "an early hint")?;
    let bytes: usize = headers.iter().map(|field| field.name.len() + field.value.len()).sum();
    if bytes > HINT_BYTES_MAX {
        return Err(PyValueError::new_err(format!(
            "the fields of an early hint have {bytes} bytes, above the limit of {HINT_BYTES_MAX}"
        )));
    }
    Ok(())
}

/// Checks the fields of a trailer section.
pub(crate) fn check_trailers(headers: &Headers) -> PyResult<()> {
    check_framing(headers, "a trailer section")
}

/// Rejects fields that frame a message, where a recipient could take them for those of the response
/// (RFC 9110 6.5.1, RFC 9112 6.1).
fn check_framing(headers: &Headers, what: &str) -> PyResult<()> {
    match headers.iter().find_map(|field| field.known.filter(|known| known.is_framing())) {
        None => Ok(()),
        Some(known) => Err(PyValueError::new_err(format!("{what} has no {}", known.as_str()))),
    }
}

/// Appends a field; stores the value of Content-Length in `length`.
pub(crate) fn append(
    name: &[u8],
    value: &[u8],
    headers: &mut Headers,
    length: &mut Option<u64>,
) -> PyResult<()> {
    let value = value.trim_ascii();
    if let Some(known) = Known::from_bytes(name) {
        if known == Known::ContentLength {
            let digits = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            let Some(digits) = digits else {
                let shown = String::from_utf8_lossy(value);
                return Err(PyValueError::new_err(format!(
                    "content-length {shown:?} is not a number"
                )));
            };
            *length = Some(digits);
        }
        check_value(name, value)?;
        headers.append(known, value);
        return Ok(());
    }
    // RFC 9110 5.1: a name is a token. Other bytes could end the field and begin another.
    if !wire::token::is_token(name) {
        let shown = String::from_utf8_lossy(name);
        return Err(PyValueError::new_err(format!("{shown:?} is not a valid header name")));
    }
    check_value(name, value)?;
    headers.append(name, value);
    Ok(())
}

/// RFC 9110 5.5: CR, LF and NUL are invalid in a field value.
fn check_value(name: &[u8], value: &[u8]) -> PyResult<()> {
    if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        let name = String::from_utf8_lossy(name);
        let detail = format!("the value of the header {name:?} contains a line break or NUL");
        return Err(PyValueError::new_err(detail));
    }
    Ok(())
}
