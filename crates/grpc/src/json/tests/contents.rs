//! Contents that are not JSON: `google.api.HttpBody` and compressed messages; and large ones, which
//! are translated on the blocking pool.

use super::*;

const OK: [(&str, &str); 1] = [("grpc-status", "0")];

/// A message of `google.api.HttpBody` with its prefix.
fn http_body(media_type: &str, data: &[u8]) -> Vec<u8> {
    let pool = DescriptorPool::decode(&*std::fs::read(SHOP).unwrap()).unwrap();
    let mut body = DynamicMessage::new(pool.get_message_by_name("google.api.HttpBody").unwrap());
    body.set_field_by_name("content_type", Value::String(media_type.to_owned()));
    body.set_field_by_name("data", Value::Bytes(Bytes::copy_from_slice(data)));
    let message = body.encode_to_vec();
    [&grpc::prefix(0, message.len() as u32)[..], &message].concat()
}

/// The bytes of the call that a request becomes.
fn call(line: &str, body: Body) -> Result<Bytes, u16> {
    let shop = shop();
    let mut request = request(line, "");
    request.headers.set(Known::ContentType, "image/png");
    request.body = body;
    net::worker::block_on_local(async {
        match shop.on_request(&mut request).resolve().await {
            Step::Continue => {}
            Step::Fail(fault) => return Err(fault.status),
            Step::Respond(response) => return Err(response.status),
        }
        assert_eq!(request.headers.get_str(grpc::ACCEPT_ENCODING), Some("gzip"));
        request.body.collect(64 << 20).await.map_err(|fault| fault.status)
    })
}

#[test]
fn a_content_of_any_type_is_one_field() {
    // Neither JSON nor trimmed.
    let content = b"\n\x89PNG \0 ";
    let sent =
        call("POST /v1/orders/7/attachments", Body::from(Bytes::from_static(content))).unwrap();
    let json = messages("AttachRequest", &sent);
    let expected = r#"{"orderId":"7","file":{"contentType":"image/png","data":"ColQTkcgACA="}}"#;
    assert_eq!(json, expected);
    // Path and query hold, and the content is bounded.
    let large = Body::from(Bytes::from(vec![0; 5 << 20]));
    assert_eq!(call("POST /v1/orders/7/attachments", large), Err(413));
    assert_eq!(call("POST /v1/orders/7/attachments?file.data=eA", Body::Empty), Err(400));
}

#[test]
fn a_stream_of_any_type_is_sent_in_pieces() {
    let content: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();
    let pieces = content.chunks(70_000).map(|piece| Ok(Frame::Data(Bytes::copy_from_slice(piece))));
    let sent = call("POST /v1/upload", Body::stream(Frames(pieces.collect()))).unwrap();
    let mut reader = grpc::MessageReader::new(1 << 20);
    reader.push(&sent);
    let (mut data, mut count) = (Vec::new(), 0);
    let pool = DescriptorPool::decode(&*std::fs::read(SHOP).unwrap()).unwrap();
    let kind = pool.get_message_by_name("google.api.HttpBody").unwrap();
    while let Some((_, message)) = reader.next_message().unwrap() {
        let message = DynamicMessage::decode(kind.clone(), message).unwrap();
        data.extend_from_slice(message.get_field_by_name("data").unwrap().as_bytes().unwrap());
        count += 1;
    }
    assert!(data == content && count == 4, "{count}");
}

#[test]
fn a_response_of_any_type_is_its_content() {
    let plain = node!({ "descriptors": SHOP });
    let invoice = |bytes: &[u8]| received("GET /v1/orders/7/invoice", &plain, bytes, &OK);
    assert_eq!(invoice(&http_body("text/csv", b"a,b\n")), "200 text/csv a,b\n");
    assert_eq!(invoice(&http_body("", b"a")), "200 application/octet-stream a");
    let forged = http_body("text/csv\r\nx: y", b"a");
    assert_eq!(invoice(&forged), "200 application/octet-stream a");
    let failed = [("grpc-status", "5"), ("grpc-message", "none")];
    let json = r#"404 application/json {"code":5,"message":"none","details":[]}"#;
    assert_eq!(received("GET /v1/orders/7/invoice", &plain, b"", &failed), json);

    let export = |bytes: &[u8], fields| received("GET /v1/export", &plain, bytes, fields);
    let two = [http_body("text/csv", b"a,b\n"), http_body("ignored/type", b"c,d\n")].concat();
    assert_eq!(export(&two, &OK), "200 text/csv a,b\nc,d\n");
    assert_eq!(export(b"", &OK), "200 application/octet-stream ");
    assert_eq!(export(b"", &failed), json);
    // What has begun breaks off.
    let broken = export(&two, &failed);
    assert!(broken.contains("the call ended with not_found"), "{broken}");
}

#[test]
fn compressed_messages_are_decoded() {
    let compress = |message: &[u8]| {
        let message = coding::encode_all(coding::Coding::Gzip, 6, message).unwrap();
        [&grpc::prefix(grpc::COMPRESSED, message.len() as u32)[..], &message].concat()
    };
    let get = |encoding: Option<&'static str>, bytes: Vec<u8>| {
        let frames = vec![Ok(Frame::Data(Bytes::from(bytes))), Ok(Frame::Trailers(trailers(&OK)))];
        let body = Body::stream(Frames(frames.into()));
        let mut response = Response::with_body(200, "application/grpc", body);
        if let Some(encoding) = encoding {
            response.headers.append(grpc::ENCODING, encoding);
        }
        answered("GET /v1/orders/7", &node!({ "descriptors": SHOP }), response)
    };
    let order = framed("Order", r#"{"orderId":"7"}"#).split_off(grpc::PREFIX_BYTES);
    let json = r#"200 application/json {"orderId":"7"}"#;
    assert_eq!(get(Some("gzip"), compress(&order)), json);
    // A message may be sent as it is, whatever the header says.
    let plain = || framed("Order", r#"{"orderId":"7"}"#);
    assert_eq!(get(Some("gzip"), plain()), json);
    assert_eq!(get(Some("identity"), plain()), json);
    let failed = |out: String, why: &str| {
        assert!(out.starts_with("502 http_protocol_error") && out.contains(why), "{out}");
    };
    failed(get(Some("zstd"), compress(&order)), "compression");
    failed(get(None, compress(&order)), "compression");
    // A bomb, and damage.
    failed(get(Some("gzip"), compress(&vec![0; 64 << 20])), "a compressed message: Too");
    let mut damaged = compress(&order);
    damaged[20] ^= 0xFF;
    failed(get(Some("gzip"), damaged), "a compressed message");
}

#[test]
fn compressed_requests_are_rejected() {
    let mut request = request("PUT /v1/orders/7", "{}");
    request.headers.set(Known::ContentEncoding, "gzip");
    net::worker::block_on_local(async {
        match shop().on_request(&mut request).resolve().await {
            Step::Fail(fault) => assert_eq!(fault.status, 415),
            _ => panic!("it was accepted"),
        }
    });
}

#[test]
fn large_messages_are_the_same_from_the_blocking_pool() {
    let id = "x".repeat(200_000);
    let json = format!(r#"{{"orderId":"7","lines":["{id}"]}}"#);
    let out = translated(&*shop(), "Order", "PUT /v1/orders/7", &json).unwrap();
    assert_eq!(out, format!("/shop.v1.Orders/Replace {json}"));
    let invalid = format!(r#"{{"color":"{id}"}}"#);
    let out = translated(&*shop(), "Order", "PUT /v1/orders/7", &invalid).unwrap_err();
    assert!(out.starts_with("400 "), "{out}");
    let out = translated(&*shop(), "Order", "POST /v1/import", &format!("{json}\n{json}")).unwrap();
    assert_eq!(out, format!("/shop.v1.Orders/Import {json}\n{json}"));
    let plain = node!({ "descriptors": SHOP });
    let lines = [framed("Order", &json), framed("Order", &json)].concat();
    let out = received("GET /v1/orders/7/changes", &plain, &lines, &OK);
    assert_eq!(out, format!("200 application/x-ndjson {json}\n{json}\n"));
}
