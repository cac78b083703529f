//! Header fields that an application gives.
//!
//! Promises that none of them ends its line: what is no name and no value of a field is refused
//! while the application still runs.

use exchange::Headers;
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;
use wire::Known;

/// Adds a field; notes in `length` what Content-Length says.
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
                    "content-length {shown:?} is no number"
                )));
            };
            *length = Some(digits);
        }
        check_value(name, value)?;
        headers.append(known, value);
        return Ok(());
    }
    // RFC 9110 5.1: a name is a token. Anything else could end the field and begin another.
    if !wire::token::is_token(name) {
        let shown = String::from_utf8_lossy(name);
        return Err(PyValueError::new_err(format!("{shown:?} is no name of a header")));
    }
    check_value(name, value)?;
    headers.append(name, value);
    Ok(())
}

/// RFC 9110 5.5: CR, LF and NUL are dangerous, and no field has them.
fn check_value(name: &[u8], value: &[u8]) -> PyResult<()> {
    if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        let name = String::from_utf8_lossy(name);
        let why = format!("the value of the header {name:?} holds a line break or NUL");
        return Err(PyValueError::new_err(why));
    }
    Ok(())
}
