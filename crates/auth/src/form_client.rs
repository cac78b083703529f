//! Forms that the gateway sends to a provider, with its own name and secret (RFC 6749 2.3).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use message::{Body, Headers};
use plugin::variables::percent_encode;
use settings::{Secret, Setting};
use wire::Known;

/// How a client authenticates to a provider (OpenID Connect Core 9).
#[derive(Clone, Copy, Debug, PartialEq, Setting)]
pub(crate) enum ClientAuth {
    /// In `Authorization: Basic` (`client_secret_basic`).
    Basic,
    /// In the form (`client_secret_post`).
    Post,
}

/// The header and the body of a request with a form.
pub(crate) fn authenticated_form(
    fields: &[(&str, &str)],
    client_id: &str,
    client_secret: Option<&Secret>,
    client_auth: ClientAuth,
) -> (Headers, Body) {
    let mut form = fields.to_vec();
    let mut headers = Headers::new();
    headers.append(Known::ContentType, "application/x-www-form-urlencoded");
    let secret = client_secret.map(Secret::expose).map(String::from_utf8_lossy);
    match (&secret, client_auth) {
        (Some(secret), ClientAuth::Basic) => {
            // RFC 6749 2.3.1: both are encoded as in a form before they are joined.
            let joined = format!("{}:{}", form_text(client_id), form_text(secret));
            headers.append(Known::Authorization, format!("Basic {}", STANDARD.encode(joined)));
        }
        (Some(secret), ClientAuth::Post) => {
            form.push(("client_id", client_id));
            form.push(("client_secret", secret));
        }
        (None, _) => form.push(("client_id", client_id)),
    }
    (headers, Body::Bytes(form_of(&form).into()))
}

/// A form of these fields, as a query has it, too.
pub(crate) fn form_of(fields: &[(&str, &str)]) -> String {
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", form_text(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn form_text(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    percent_encode(text.as_bytes(), b"", &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_sent_in_one_place() {
        let secret: Secret = settings::read(&settings::node!("s&t")).unwrap();
        let sent = |auth| {
            let (headers, body) = authenticated_form(&[("a", "b")], "me", Some(&secret), auth);
            let Body::Bytes(body) = body else { panic!("no form") };
            let authorization = headers.get_str(Known::Authorization).map(str::to_owned);
            (authorization, String::from_utf8(body.to_vec()).unwrap())
        };
        let basic = Some("Basic bWU6cyUyNnQ=".to_owned());
        assert_eq!(sent(ClientAuth::Basic), (basic, "a=b".to_owned()));
        let form = "a=b&client_id=me&client_secret=s%26t".to_owned();
        assert_eq!(sent(ClientAuth::Post), (None, form));
    }

    #[test]
    fn forms_are_encoded() {
        assert_eq!(form_of(&[("a", "x y&z=ü"), ("b", "")]), "a=x%20y%26z%3D%C3%BC&b=");
    }
}
