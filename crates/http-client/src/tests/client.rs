//! Requests to servers of URLs.

use std::time::Duration;

use message::FaultKind;
use net::{Resolver, manual_time};

use super::*;
use crate::{Client, ClientSettings, Url};

fn client(context: &WorkerContext) -> Client {
    let settings = ClientSettings {
        name: "test".to_owned(),
        tls: None,
        server_name: None,
        connect: Duration::from_secs(5),
        limits: PoolLimits::default(),
        options: options().into(),
    };
    Client::new(context, settings)
}

async fn fetch(client: &Client, server: &Server) -> Result<Response, Fault> {
    let Destination::Tcp(address) = &server.endpoint.destination else { panic!("TCP") };
    let url: Url = format!("http://{address}/path").parse().unwrap();
    let request = request(Method::Get);
    let (timeout, names) = (Duration::from_secs(10), Resolver::system());
    client.fetch(&names, &url, &request, Body::Empty, timeout, 8).await
}

async fn content(response: Result<Response, Fault>) -> (u16, Bytes) {
    let mut response = response.unwrap();
    (response.status, response.body.collect(8).await.unwrap())
}

#[test]
fn responses_are_whole_redirects_are_not_followed_and_connections_are_reused() {
    manual_time::block_on(async {
        let (server, context) = (Server::start(), context());
        let client = client(&context);
        let serve = async {
            let stream = server.answer("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            read_head(&stream).await;
            send(&stream, "HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n").await;
            stream
        };
        let ask = async {
            assert_eq!(content(fetch(&client, &server).await).await, (200, "ok".into()));
            assert_eq!(content(fetch(&client, &server).await).await, (302, "".into()));
        };
        let (stream, ()) = tokio::join!(serve, ask);
        // The server closes the idle connection: the next request has one of its own.
        drop(stream);
        let serve = server.answer("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n2");
        let (_, response) = tokio::join!(serve, fetch(&client, &server));
        assert_eq!(content(response).await, (200, "2".into()));
    });
}

#[test]
fn a_response_has_a_size_and_a_time() {
    manual_time::block_on(async {
        let (server, context) = (Server::start(), context());
        let client = client(&context);
        let serve = server.answer("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n123456789");
        let (_, response) = tokio::join!(serve, fetch(&client, &server));
        assert_eq!(response.err().unwrap().kind, FaultKind::ResponseBodySize);

        // A server that sends a byte at a time does not prolong the whole.
        let serve = async {
            let stream = server.answer("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n").await;
            for _ in 0..3 {
                send(&stream, "x").await;
                manual_time::advance(Duration::from_secs(3)).await;
            }
            manual_time::advance(Duration::from_secs(2)).await;
            stream
        };
        let (_, response) = tokio::join!(serve, fetch(&client, &server));
        let fault = response.err().unwrap();
        assert_eq!((fault.kind, fault.status), (FaultKind::ResponseTimeout, 504));
        assert_eq!(fault.detail, "no whole response within 10000 ms");
    });
}

#[test]
fn a_server_without_an_address_or_tls_is_a_fault() {
    manual_time::block_on(async {
        let context = context();
        let client = client(&context);
        for (url, kind) in [
            ("http://a..b/", FaultKind::DnsError),
            ("https://127.0.0.1:1/", FaultKind::TlsProtocolError),
        ] {
            let connected = client.connect(&Resolver::system(), &url.parse().unwrap()).await;
            assert_eq!(connected.err().unwrap().kind, kind, "{url}");
        }
    });
}
