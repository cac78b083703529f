//! A connection that a handler takes over after 101 (extension point 3).

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use message::duplex::{receive, send};
use message::{Duplex, Ending, Request, Response};
use net::worker::block_on_local;

use crate::client::{Answers, Client, serve};

const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n";

/// Sends back in capitals what it gets, and says how it ended.
async fn shout(mut duplex: Box<dyn Duplex>, ended: Rc<Cell<Option<Ending>>>) -> Ending {
    let ending = loop {
        let Ok(chunk) = receive(&mut *duplex).await else { break Ending::ClientGone };
        if chunk.is_empty() {
            duplex.finish();
            break Ending::Finished;
        }
        if send(&mut *duplex, Bytes::from(chunk.to_ascii_uppercase())).await.is_err() {
            break Ending::ClientGone;
        }
    };
    ended.set(Some(ending));
    ending
}

fn shouting() -> (std::net::SocketAddr, Rc<Cell<Option<Ending>>>) {
    let ended = Rc::new(Cell::new(None));
    let heard = ended.clone();
    let handler = Answers(move |request: &mut Request| {
        if !request.upgrade {
            return Ok(Response::text(426, "upgrade"));
        }
        let mut response = Response::new(101);
        response.headers.append("upgrade", "shout");
        let ended = ended.clone();
        response.takeover = Some(Box::new(|duplex| Box::pin(shout(duplex, ended))));
        Ok(response)
    });
    (serve(Vec::new(), handler), heard)
}

#[test]
fn the_connection_is_the_handlers_once_101_is_out() {
    block_on_local(async {
        let (address, ended) = shouting();
        let mut client = Client::connect(address).await;
        // What comes behind the head is the first of the new protocol.
        client.send(format!("{UPGRADE}early")).await;
        let head = client.head().await;
        assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
        assert!(head.contains("Upgrade: shout\r\n") && head.contains("Connection: Upgrade\r\n"));
        assert!(!head.to_ascii_lowercase().contains("content-length"), "{head}");
        assert_eq!(client.read(5).await, "EARLY");
        client.send("get / http/1.1\r\n\r\n").await;
        assert_eq!(client.read(18).await, "GET / HTTP/1.1\r\n\r\n");
        client.finish();
        assert_eq!(client.rest().await, "");
        assert_eq!(ended.get(), Some(Ending::Finished));
    });
}

#[test]
fn a_request_without_upgrade_is_handled_and_the_connection_persists() {
    block_on_local(async {
        let (address, _) = shouting();
        let mut client = Client::connect(address).await;
        client.get("/").await;
        assert!(client.head().await.starts_with("HTTP/1.1 426 "));
        assert_eq!(client.read(7).await, "upgrade");
        client.send(UPGRADE).await;
        assert!(client.head().await.starts_with("HTTP/1.1 101 "));
    });
}

#[test]
fn a_tunnel_of_http_is_not_an_upgrade() {
    block_on_local(async {
        let (address, _) = shouting();
        let mut client = Client::connect(address).await;
        for protocols in ["h2c", "shout, H2C"] {
            client.send(UPGRADE.replace("shout", protocols)).await;
            assert!(client.head().await.starts_with("HTTP/1.1 426 "), "{protocols}");
            assert_eq!(client.read(7).await, "upgrade");
        }
    });
}
