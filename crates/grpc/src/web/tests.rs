//! `grpc_web` in both directions.

use message::{GrpcCall, Target};
use plugin::Filter;
use settings::node;
use wire::Method;

use super::*;

/// A message of three bytes.
const MESSAGE: &[u8] = b"\0\0\0\0\x03abc";

fn request(content_type: &str, body: impl Into<Bytes>) -> Request {
    let mut headers = Headers::new();
    headers.append(Known::ContentType, content_type);
    let target = Target::new(Bytes::from_static(b"/a.B/C")).unwrap();
    let mut request = Request::made_up(Method::Post, target, headers);
    request.body = Body::from(body.into());
    GrpcCall::note(&mut request).unwrap();
    request
}

fn passed(step: MaybeFuture<'_, Step>) {
    let MaybeFuture::Ready(Step::Continue) = step else { panic!("does not continue") };
}

/// Content, then what comes last.
struct Pieces(Vec<Result<Frame, Fault>>);

impl BodyStream for Pieces {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        Poll::Ready((!self.0.is_empty()).then(|| self.0.remove(0)))
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

fn response(last: Option<Result<Frame, Fault>>) -> Response {
    let data = Ok(Frame::Data(Bytes::from_static(MESSAGE)));
    let body = Body::stream(Pieces([Some(data), last].into_iter().flatten().collect()));
    Response::with_body(200, "application/grpc+proto", body)
}

fn trailers(code: &str) -> Frame {
    let mut trailers = Headers::new();
    trailers.append("grpc-status", code);
    Frame::Trailers(trailers)
}

fn collected(body: &mut Body) -> Vec<u8> {
    net::worker::block_on_local(async { body.collect(1 << 20).await.unwrap().to_vec() })
}

fn with_trailers(lines: &str) -> Vec<u8> {
    let length = u32::try_from(lines.len()).unwrap();
    [MESSAGE, &grpc::prefix(grpc::TRAILERS, length), lines.as_bytes()].concat()
}

#[test]
fn a_request_becomes_grpc() {
    let text = STANDARD.encode(MESSAGE);
    for (content_type, body, forwarded) in [
        ("application/grpc-web+proto", Bytes::from_static(MESSAGE), "application/grpc+proto"),
        ("application/grpc-web-text", Bytes::from(text), "application/grpc"),
    ] {
        let mut request = request(content_type, body);
        passed(GrpcWebFilter.on_request(&mut request));
        assert_eq!(request.headers.get_str(Known::ContentType), Some(forwarded));
        assert_eq!(request.headers.get_str(Known::Te), Some("trailers"));
        assert_eq!(collected(&mut request.body), MESSAGE);
    }
}

#[test]
fn other_requests_pass_unchanged() {
    for content_type in ["application/grpc", "application/json"] {
        let mut request = request(content_type, MESSAGE);
        passed(GrpcWebFilter.on_request(&mut request));
        assert_eq!(request.headers.get_str(Known::ContentType), Some(content_type));
        let mut response = response(Some(Ok(trailers("0"))));
        passed(GrpcWebFilter.on_response(&mut request, &mut response));
        let content_type = response.headers.get_str(Known::ContentType);
        assert_eq!(content_type, Some("application/grpc+proto"));
    }
}

#[test]
fn trailers_become_the_last_message() {
    let broken = || Fault::new(message::FaultKind::ConnectionTerminated, "");
    for (last, lines, code) in [
        (Some(Ok(trailers("5"))), "grpc-status:5\r\n", Code::NotFound),
        (None, "grpc-status:2\r\n", Code::Unknown),
        (Some(Err(broken())), "grpc-status:14\r\ngrpc-message:Bad Gateway\r\n", Code::Unavailable),
    ] {
        let mut request = request("application/grpc-web", MESSAGE);
        let mut response = response(last);
        passed(GrpcWebFilter.on_response(&mut request, &mut response));
        let content_type = response.headers.get_str(Known::ContentType);
        assert_eq!(content_type, Some("application/grpc-web+proto"));
        assert_eq!(collected(&mut response.body), with_trailers(lines));
        assert_eq!(request.notes.grpc.unwrap().status(), Some(code));
    }
}

#[test]
fn text_is_encoded_piece_by_piece() {
    let mut request = request("application/grpc-web-text", "");
    let mut response = response(Some(Ok(trailers("0"))));
    passed(GrpcWebFilter.on_response(&mut request, &mut response));
    let all = with_trailers("grpc-status:0\r\n");
    let (message, trailers) = all.split_at(MESSAGE.len());
    let expected = [STANDARD.encode(message), STANDARD.encode(trailers)].concat();
    assert_eq!(collected(&mut response.body), expected.as_bytes());
}

#[test]
fn a_status_in_the_headers_moves_to_the_body() {
    let request = request("application/grpc-web", MESSAGE);
    let mut response = request.notes.grpc.as_ref().unwrap().failed(&Fault::not_found()).unwrap();
    GrpcWebFilter.on_generated(&request, &mut response);
    assert!(!response.headers.contains("grpc-status"));
    let expected = with_trailers("grpc-status:12\r\ngrpc-message:Not Found\r\n");
    assert_eq!(collected(&mut response.body), &expected[MESSAGE.len()..]);
    // Of a server, with details.
    let mut only = Response::with_body(200, "application/grpc", Body::Empty);
    only.headers.append("grpc-status", "5");
    only.headers.append("grpc-status-details-bin", "CAU");
    GrpcWebFilter.on_generated(&request, &mut only);
    let expected = with_trailers("grpc-status:5\r\ngrpc-status-details-bin:CAU\r\n");
    assert_eq!(collected(&mut only.body), &expected[MESSAGE.len()..]);
    // The response of a server that is not gRPC is left alone.
    let mut page = Response::text(502, "no gRPC");
    GrpcWebFilter.on_generated(&request, &mut page);
    assert_eq!(collected(&mut page.body), b"no gRPC");
}

#[test]
fn it_has_no_settings() {
    let mut report = settings::Report::new();
    assert!((KIND.read)(&node!({}), &mut Reader::new(&mut report)).is_some());
    (KIND.read)(&node!({ "text": true }), &mut Reader::new(&mut report));
    assert!(report.render().contains("text"), "{}", report.render());
}
