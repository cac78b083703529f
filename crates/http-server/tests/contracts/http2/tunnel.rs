//! WebSockets over a stream, by extended CONNECT (RFC 8441).

use bytes::Bytes;
use message::duplex::{receive, send};
use message::{Ending, HandlerResult, Request, Response};
use net::worker::block_on_local;

use super::client::Http2Client;
use crate::client::{Answers, serve};

/// Accepts the upgrade that HTTP/1.1 would have, and sends back what it gets.
fn echo(request: &mut Request) -> HandlerResult {
    if !request.upgrade {
        return Ok(Response::text(200, "no tunnel"));
    }
    let key = request.headers.get("sec-websocket-key").unwrap_or_default().len();
    assert_eq!((key, request.method.as_str()), (24, "GET"));
    let mut response = Response::new(101);
    response.headers.append("upgrade", "websocket");
    response.takeover = Some(Box::new(|mut duplex| {
        Box::pin(async move {
            loop {
                match receive(&mut *duplex).await {
                    Ok(chunk) if chunk.is_empty() => break,
                    Ok(chunk) => send(&mut *duplex, chunk).await.unwrap(),
                    Err(_) => return Ending::ClientGone,
                }
            }
            duplex.finish();
            Ending::Finished
        })
    }));
    Ok(response)
}

#[test]
fn a_tunnel_carries_both_directions_next_to_other_streams() {
    block_on_local(async {
        let mut client = Http2Client::connect(serve(Vec::new(), Answers(echo))).await;
        let plain = client.open("GET", "/", true);
        // Only the settings of the server allow a tunnel.
        assert_eq!(client.response(plain).await.body, b"no tunnel");
        let tunnel = client.open_tunnel("websocket");
        client.until(tunnel, "200", |received| received.status == 200).await;
        assert!(!client.seen(tunnel).fields.contains("upgrade"));
        for (text, all) in [("one", "one"), ("two", "onetwo")] {
            client.protocol.send_data(tunnel, Bytes::from(text), false).unwrap();
            client.until(tunnel, "an echo", |it| it.body == all.as_bytes()).await;
            let plain = client.open("GET", "/", true);
            assert_eq!(client.response(plain).await.body, b"no tunnel");
        }
        client.protocol.send_data(tunnel, Bytes::new(), true).unwrap();
        let ended = client.response(tunnel).await;
        assert_eq!((ended.is_whole, ended.reset), (true, None));
        let other = client.open_tunnel("connect-udp");
        assert_eq!(client.response(other).await.status, 501);
    });
}
