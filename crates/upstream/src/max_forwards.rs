//! The field Max-Forwards of a request (RFC 9110 7.6.2).
//!
//! OPTIONS and TRACE may limit how many times they are forwarded. Each forwarding decrements the
//! number; at zero the server responds itself and sends nothing to the upstream. A value that is
//! not a number is ignored and forwarded as it is.

use message::{Request, Response};
use wire::{Known, Method, token};

/// Decrements Max-Forwards; returns the response if the request must not be forwarded.
pub(crate) fn count_down(request: &mut Request) -> Option<Response> {
    if !matches!(request.method, Method::Options | Method::Trace) {
        return None;
    }
    let left = token::decimal(request.headers.get(Known::MaxForwards)?)?;
    if left > 0 {
        request.headers.set(Known::MaxForwards, (left - 1).to_string());
        return None;
    }
    // RFC 9110 9.3.8: TRACE would have to show the request, including what proxies added to it for
    // the upstream only. So the server does not support the method.
    let status = if request.method == Method::Options { 204 } else { 405 };
    let mut response = Response::new(status);
    response.headers.append(Known::Allow, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    Some(response)
}

#[cfg(test)]
mod tests {
    use message::{Headers, Target};

    use super::*;

    fn counted(method: Method, value: &str) -> (Option<u16>, Option<String>) {
        let mut headers = Headers::new();
        headers.append(Known::MaxForwards, value);
        let target = Target::new("/a".into()).unwrap();
        let mut request = Request::made_up(method, target, headers);
        let status = count_down(&mut request).map(|response| response.status);
        (status, request.headers.get_str(Known::MaxForwards).map(str::to_owned))
    }

    #[test]
    fn it_is_counted_down_and_ends_at_zero() {
        assert_eq!(counted(Method::Options, "10"), (None, Some("9".to_owned())));
        assert_eq!(counted(Method::Trace, "1"), (None, Some("0".to_owned())));
        assert_eq!(counted(Method::Options, "0").0, Some(204));
        assert_eq!(counted(Method::Trace, "0").0, Some(405));
    }

    #[test]
    fn other_methods_and_invalid_numbers_are_ignored() {
        for value in ["", "-1", "many", "1.5", "99999999999999999999"] {
            assert_eq!(counted(Method::Options, value), (None, Some(value.to_owned())), "{value}");
        }
        assert_eq!(counted(Method::Get, "0"), (None, Some("0".to_owned())));
    }
}
