//! The opening handshake: accepted, rejected and denied.

use apps::websocket::WebSocketSettings;
use message::Headers;
use net::worker::block_on_local;
use offload::session::{Accepted, HandedSession};
use offload::wait;

use crate::client::{Client, request};
use crate::server::{echoing, next, start};

/// Sends a request and reads the response head.
async fn head(client: &mut Client, request: String) -> String {
    client.send(request).await;
    client.head().await
}

#[test]
fn the_response_has_the_applications_choices_and_no_reserved_headers() {
    let accept = |mut handed: HandedSession| {
        let mut headers = Headers::new();
        headers.append("X-Own", "1");
        headers.append("Sec-WebSocket-Accept", "forged");
        headers.append("Sec-WebSocket-Extensions", "forged");
        headers.append("Content-Length", "7");
        let accepted = Accepted { subprotocol: Some("chat.v2".into()), headers };
        handed.session.accept(accepted).unwrap();
        next(&mut handed.session);
    };
    block_on_local(async {
        let (address, _) = start(WebSocketSettings::default(), accept);
        let mut client = Client::dial(address).await;
        let offer = "Sec-WebSocket-Protocol: chat.v1, chat.v2\r\n";
        let answer = head(&mut client, request(offer)).await.to_ascii_lowercase();
        assert!(answer.starts_with("http/1.1 101 switching protocols\r\n"), "{answer}");
        for field in [
            "upgrade: websocket\r\n",
            "connection: upgrade\r\n",
            "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n",
            "sec-websocket-protocol: chat.v2\r\n",
            "x-own: 1\r\n",
        ] {
            assert_eq!(answer.matches(field).count(), 1, "{field}: {answer}");
        }
        assert!(!answer.contains("forged") && !answer.contains("content-length"), "{answer}");

        // A subprotocol that was not offered: the client would have to fail the connection.
        let mut client = Client::dial(address).await;
        let answer = head(&mut client, request("Sec-WebSocket-Protocol: chat.v1\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    });
}

#[test]
fn an_invalid_handshake_gets_a_reason() {
    block_on_local(async {
        let address = echoing(WebSocketSettings::default());
        let good = request("");
        for (bad, status) in [
            (good.replace("Version: 13", "Version: 12"), "426"),
            (good.replace("Sec-WebSocket-Version: 13\r\n", ""), "426"),
            (good.replace("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZQ=="), "400"),
            (good.replace("dGhlIHNhbXBsZSBub25jZQ==", "not base 64"), "400"),
            (good.replace("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""), "400"),
            // These do not request a session.
            (good.replace("Upgrade: WebSocket", "Upgrade: else"), "200"),
            (good.replace("keep-alive, Upgrade", "keep-alive"), "200"),
            (good.replace("GET", "POST"), "200"),
            (good.replace("HTTP/1.1", "HTTP/1.0"), "200"),
        ] {
            let mut client = Client::dial(address).await;
            let answer = head(&mut client, bad.clone()).await;
            assert_eq!(&answer[9..12], status, "{bad}{answer}");
            if status == "426" {
                assert!(answer.contains("Sec-WebSocket-Version: 13\r\n"), "{answer}");
            }
        }
    });
}

#[test]
fn a_denied_session_gets_its_response_and_the_connection_is_reused() {
    let deny = |mut handed: HandedSession| match handed.head.headers.get_str("x-how") {
        Some("whole") => {
            handed.session.deny().unwrap().respond(401, Headers::new(), "whole");
        }
        Some("streamed") => {
            let mut sending = handed.session.deny().unwrap().stream(418, Headers::new(), Some(8));
            wait(sending.send("stre")).unwrap();
            wait(sending.send("amed")).unwrap();
            sending.finish(None);
        }
        _ => {}
    };
    block_on_local(async {
        let (address, _) = start(WebSocketSettings::default(), deny);
        let mut client = Client::dial(address).await;
        let whole = head(&mut client, request("X-How: whole\r\n")).await;
        assert!(whole.starts_with("HTTP/1.1 401 "), "{whole}");
        client.send(request("X-How: streamed\r\n")).await;
        client.send(request("Connection: close\r\n")).await;
        let rest = client.bytes().await;
        let rest = String::from_utf8_lossy(&rest).into_owned();
        assert!(rest.starts_with("wholeHTTP/1.1 418 "), "{rest}");
        assert!(rest.contains("\r\n\r\nstreamedHTTP/1.1 403 "), "{rest}");
    });
}

#[test]
fn an_application_that_does_not_decide_is_504() {
    let settings = WebSocketSettings {
        accept_timeout: settings::Duration::from_millis(20),
        ..WebSocketSettings::default()
    };
    block_on_local(async {
        // It sees the end of the session, and holds it until then.
        let (address, _) = start(settings, |mut handed| drop(next(&mut handed.session)));
        let mut client = Client::dial(address).await;
        let answer = head(&mut client, request("")).await;
        assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    });
}
