//! How far a request that asks about the way may still go (RFC 9110 7.6.2).
//!
//! OPTIONS and TRACE may say in `Max-Forwards` how many times they may be forwarded. Each time they
//! are, we count one down; at zero we answer them ourselves and nothing is sent to the upstream. A
//! value that is no number says nothing and is passed on as it came.

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
    // RFC 9110 9.3.8: TRACE would have to show the request, with what proxies have put into it for
    // the upstream's eyes only. So it is a method we do not have.
    let status = if request.method == Method::Options { 204 } else { 405 };
    let mut response = Response::new(status);
    response.headers.append(Known::Allow, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    Some(response)
}

#[cfg(test)]
mod tests {
    use message::{Headers, Target};

    use super::*;

    fn asked(method: Method, value: &str) -> (Option<u16>, Option<String>) {
        let mut headers = Headers::new();
        headers.append(Known::MaxForwards, value);
        let target = Target::new("/a".into()).unwrap();
        let mut request = Request::made_up(method, target, headers);
        let answer = count_down(&mut request).map(|response| response.status);
        (answer, request.headers.get_str(Known::MaxForwards).map(str::to_owned))
    }

    #[test]
    fn it_is_counted_down_and_ends_at_zero() {
        assert_eq!(asked(Method::Options, "10"), (None, Some("9".to_owned())));
        assert_eq!(asked(Method::Trace, "1"), (None, Some("0".to_owned())));
        assert_eq!(asked(Method::Options, "0").0, Some(204));
        assert_eq!(asked(Method::Trace, "0").0, Some(405));
    }

    #[test]
    fn it_means_nothing_to_other_methods_and_where_it_is_no_number() {
        for value in ["", "-1", "many", "1.5", "99999999999999999999"] {
            assert_eq!(asked(Method::Options, value), (None, Some(value.to_owned())), "{value}");
        }
        assert_eq!(asked(Method::Get, "0"), (None, Some("0".to_owned())));
    }
}
