//! Requests signed as the plugin sign of Apache ShenYu demands, in versions 1.0.0 and 2.0.0.
//!
//! Pure functions of the request and its body. Promises that what ShenYu signs is verified, and
//! that the confusions that are known are rejected: a query or a body that replaces the path, names
//! that occur twice, escaped delimiters. The format itself is ambiguous, and stays so: version 1
//! writes names and values without separators (`a=bc` and `ab=c` are one text), version 2 the
//! target and the body, and neither signs the method or the host.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use message::Request;
use serde_json::{Map, Value as Json};
use wire::Known;
use wire::target::normal_form;

use super::Invalid;
use crate::method::only;
use crate::token::json_object;

/// The longest token of version 2.
const TOKEN_BYTES_MAX: usize = 4096;
/// The parts of the text that version 1 signs which the request cannot have.
const RESERVED: [&str; 4] = ["path", "timestamp", "version", "sign"];
/// Characters whose escapes version 2 does not tell from themselves.
const DELIMITERS: &[u8] = b"/?#&=+%;";

/// The signature parameters of a request.
pub(crate) struct ShenYuSignature {
    pub(crate) key_id: String,
    /// `MD5` in version 1.
    pub(crate) algorithm: String,
    pub(crate) signature: Vec<u8>,
    pub(crate) timestamp_ms: u64,
    timestamp: String,
    /// The encoded parameters of version 2.
    parameters: Option<String>,
}

/// Removes the signature from a request.
pub(crate) fn hide(request: &mut Request) {
    let headers = &mut request.headers;
    // If this header is present, the other one is not the token.
    let is_token = !headers.remove("shenyu-authorization");
    if is_token && headers.get("version") == Some(b"2.0.0") {
        headers.remove(Known::Authorization);
    }
    headers.remove("appkey");
    headers.remove("sign");
}

impl ShenYuSignature {
    /// Reads the headers of a request; `None` if it is not signed.
    pub(crate) fn of(request: &Request) -> Result<Option<ShenYuSignature>, Invalid> {
        let header = |name| header(request, name);
        match header("version") {
            None => Ok(None),
            Some("1.0.0") => {
                let (Some(key), Some(sign), Some(timestamp)) =
                    (header("appkey"), header("sign"), header("timestamp"))
                else {
                    return Ok(None);
                };
                ShenYuSignature::new(key, "MD5", sign, timestamp, None).map(Some)
            }
            Some("2.0.0") => {
                let token = header("shenyu-authorization").or_else(|| header("authorization"));
                token.map(ShenYuSignature::of_token).transpose()
            }
            Some(_) => Err("the version of the signature is neither 1.0.0 nor 2.0.0"),
        }
    }

    fn of_token(token: &str) -> Result<ShenYuSignature, Invalid> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err("the token is too long");
        }
        let (parameters, sign) = token.split_once('.').ok_or("the token has not two parts")?;
        let decoded = STANDARD.decode(parameters).map_err(|_| "the token is not base64")?;
        let members = json_object(&decoded)
            .ok_or("the parameters of the token are not a JSON object with unique names")?;
        let text = |name: &str| {
            let text = members.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
            text.ok_or("the token has not all parameters")
        };
        let (key, timestamp) = (text("appKey")?, text("timestamp")?);
        ShenYuSignature::new(key, text("alg")?, sign, timestamp, Some(parameters.to_owned()))
    }

    fn new(
        key: &str,
        algorithm: &str,
        sign: &str,
        timestamp: &str,
        parameters: Option<String>,
    ) -> Result<ShenYuSignature, Invalid> {
        Ok(ShenYuSignature {
            key_id: key.to_owned(),
            algorithm: algorithm.to_owned(),
            signature: unhex(sign).ok_or("the signature has not upper-case hexadecimal digits")?,
            timestamp_ms: timestamp.parse().map_err(|_| "the timestamp is not a number")?,
            timestamp: timestamp.to_owned(),
            parameters,
        })
    }

    /// The text that is signed; the body is part of it if it is given.
    pub(crate) fn signed(
        &self,
        request: &SignedTarget,
        body: Option<&[u8]>,
    ) -> Result<Vec<u8>, Invalid> {
        match &self.parameters {
            Some(parameters) => {
                let target = request.decoded()?;
                Ok([parameters.as_bytes(), &target, body.unwrap_or_default()].concat())
            }
            None => self.pairs(request, body),
        }
    }

    /// Version 1: names and values in the order of the names. Without a signed body, the query is
    /// not signed either.
    fn pairs(&self, request: &SignedTarget, body: Option<&[u8]>) -> Result<Vec<u8>, Invalid> {
        let mut pairs = vec![
            ("path".to_owned(), request.path.clone()),
            ("timestamp".to_owned(), self.timestamp.clone()),
            ("version".to_owned(), "1.0.0".to_owned()),
        ];
        if let Some(body) = body {
            if !body.is_empty() {
                let members = json_object(body)
                    .ok_or("the body is not a JSON object with unique names, which is signed")?;
                pairs.extend(members.into_iter().map(|(name, value)| (name, java_text(&value))));
            }
            for pair in request.query.iter().flat_map(|query| query.split('&')) {
                let (name, value) = pair.split_once('=').unwrap_or((pair, "null"));
                pairs.push((name.to_owned(), value.to_owned()));
            }
        }
        let own = pairs[3..].iter().map(|(name, _)| name);
        if own.clone().any(|name| RESERVED.contains(&name.as_str())) {
            return Err("the request has a parameter with a reserved name");
        }
        // Java compares UTF-16.
        pairs.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
        if pairs.windows(2).any(|two| two[0].0 == two[1].0) {
            return Err("the request has a parameter twice");
        }
        let text: String = pairs.into_iter().flat_map(|(name, value)| [name, value]).collect();
        Ok(text.trim_matches(|c| c <= ' ').as_bytes().to_vec())
    }
}

/// The only value of a header.
fn header<'r>(request: &'r Request, name: &'static str) -> Option<&'r str> {
    std::str::from_utf8(only(request.headers.get_all(name))?).ok()
}

/// The target of a request, as the client wrote it.
pub(crate) struct SignedTarget {
    path: String,
    query: Option<String>,
}

impl SignedTarget {
    /// `None` if the target is not ASCII, which a URI is.
    pub(crate) fn of(request: &Request) -> Option<SignedTarget> {
        let text = |bytes: &[u8]| bytes.is_ascii().then(|| String::from_utf8_lossy(bytes).into());
        let query = match request.target.query() {
            Some(query) => Some(text(query)?),
            None => None,
        };
        Some(SignedTarget { path: text(request.target.received_path())?, query })
    }

    /// Path and query without escapes, as Java's `URI.getPath` and `getQuery` have them. A
    /// delimiter that is escaped is an error: a target without the escape has the same text.
    fn decoded(&self) -> Result<Vec<u8>, Invalid> {
        let mut target = self.path.clone();
        if let Some(query) = &self.query {
            target.push('?');
            target.push_str(query);
        }
        let escapes = target.split('%').skip(1);
        for escape in escapes {
            let byte = escape.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
            if byte.is_some_and(|byte| DELIMITERS.contains(&byte)) {
                return Err("the target has an escaped delimiter, which cannot be signed");
            }
        }
        let decoded = normal_form(target.as_bytes());
        decoded.map(|text| text.as_bytes().to_vec()).map_err(|fault| fault.as_str())
    }
}

/// A value as Java writes it as text.
fn java_text(value: &Json) -> String {
    let joined = |items: Vec<String>| items.join(", ");
    match value {
        Json::String(text) => text.clone(),
        Json::Array(items) => format!("[{}]", joined(items.iter().map(java_text).collect())),
        Json::Object(members) => format!("{{{}}}", joined(members_text(members))),
        Json::Null | Json::Bool(_) | Json::Number(_) => value.to_string(),
    }
}

fn members_text(members: &Map<String, Json>) -> Vec<String> {
    members.iter().map(|(name, value)| format!("{name}={}", java_text(value))).collect()
}

/// Hexadecimal digits as ShenYu writes them.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}
