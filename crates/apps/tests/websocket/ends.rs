//! The end of sessions, on both sides.

use std::time::Duration;

use apps::websocket::WebSocketSettings;
use net::worker::block_on_local;
use offload::session::{Accepted, Closed, HandedSession, Message as Said};
use settings::Size;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use wire::websocket::{Message, Opcode};

use crate::client::{Client, frame, goodbye, text};
use crate::server::{echo, next, start};

const WITHIN: Duration = Duration::from_secs(10);

/// An echo server, and the ends of its sessions.
fn watched(settings: WebSocketSettings) -> (std::net::SocketAddr, UnboundedReceiver<Closed>) {
    let (ended, ends) = unbounded_channel();
    let (address, _) = start(settings, move |handed| ended.send(echo(handed)).unwrap());
    (address, ends)
}

/// The end of the next session.
async fn end(ends: &mut UnboundedReceiver<Closed>) -> Closed {
    net::timer::within(WITHIN, ends.recv()).await.expect("an end within ten seconds").unwrap()
}

#[test]
fn the_application_gets_the_clients_close() {
    block_on_local(async {
        let (address, mut ends) = watched(WebSocketSettings::default());
        for (bytes, code, reason) in [
            (goodbye(1000, "enough"), 1000, "enough"),
            (goodbye(4001, ""), 4001, ""),
            (frame(Opcode::Close, true, b""), 1005, ""),
            (vec![0x83, 0x80, 0, 0, 0, 0], 1002, "a reserved opcode"),
        ] {
            let mut client = Client::connect(address).await;
            client.send(bytes).await;
            client.rest().await;
            assert_eq!(end(&mut ends).await, Closed::new(code, reason));
        }
        // Without a close frame.
        let client = Client::connect(address).await;
        client.send(text("x")).await;
        drop(client);
        assert_eq!(end(&mut ends).await, Closed::new(1006, ""));
    });
}

#[test]
fn an_oversized_message_is_1009() {
    let settings =
        WebSocketSettings { message_size: Size::from_bytes(1000), ..WebSocketSettings::default() };
    block_on_local(async {
        let (address, mut ends) = watched(settings);
        let mut client = Client::connect(address).await;
        client.send(frame(Opcode::Binary, true, &[1; 1000])).await;
        assert_eq!(client.message().await, Some(Message::Binary(vec![1; 1000])));
        client.send(frame(Opcode::Binary, false, &[1; 600])).await;
        client.send(frame(Opcode::Continuation, true, &[1; 600])).await;
        let rest = client.rest().await;
        assert!(matches!(rest[..], [Message::Close(Some(1009), _)]), "{rest:?}");
        assert_eq!(end(&mut ends).await.code, 1009);
        // A frame that is still being sent does not hide the close from the client.
        let mut client = Client::connect(address).await;
        client.try_send(frame(Opcode::Binary, true, &vec![1; 8 << 20])).await;
        let rest = client.rest().await;
        assert!(matches!(rest[..], [Message::Close(Some(1009), _)]), "{rest:?}");
    });
}

#[test]
fn the_application_closes() {
    let leaves = |mut handed: HandedSession| {
        let session = &mut handed.session;
        session.accept(Accepted::default()).unwrap();
        session.send(Said::Text("last".into())).unwrap();
        match handed.head.headers.get_str("x-code").map(str::parse::<u16>) {
            Some(Ok(code)) => session.close(Closed::new(code, "\u{fc}".repeat(100))).unwrap(),
            _ => drop(handed),
        }
    };
    block_on_local(async {
        let (address, _) = start(WebSocketSettings::default(), leaves);
        let reason = "\u{fc}".repeat(61).into_bytes();
        for (asked, said) in [
            ("1000", Message::Close(Some(1000), reason.clone())),
            ("4999", Message::Close(Some(4999), reason.clone())),
            ("1005", Message::Close(None, Vec::new())),
            ("1006", Message::Close(Some(1011), reason)),
            ("dropped", Message::Close(Some(1011), Vec::new())),
        ] {
            let mut client = Client::dial(address).await;
            client.send(crate::client::request(&format!("X-Code: {asked}\r\n"))).await;
            client.head().await;
            let last = Message::Text(b"last".to_vec());
            assert_eq!(client.message().await, Some(last), "{asked}");
            assert_eq!(client.message().await, Some(said), "{asked}");
            // The client may still send before it answers.
            client.send(text("ignored")).await;
            client.send(goodbye(1000, "")).await;
            assert_eq!(client.message().await, None);
        }
    });
}

#[test]
fn a_client_that_does_not_confirm_a_close_is_disconnected() {
    let settings = WebSocketSettings {
        close_timeout: settings::Duration::from_millis(20),
        ..WebSocketSettings::default()
    };
    block_on_local(async {
        let (address, _) = start(settings, |mut handed| {
            handed.session.accept(Accepted::default()).unwrap();
            handed.session.close(Closed::new(1000, "")).unwrap();
        });
        let mut client = Client::connect(address).await;
        assert_eq!(client.message().await, Some(Message::Close(Some(1000), Vec::new())));
        assert_eq!(client.message().await, None);
    });
}

#[test]
fn a_client_that_responds_to_pings_stays() {
    let ping_every = settings::Duration::from_millis(8);
    let settings = WebSocketSettings { ping_every, ..WebSocketSettings::default() };
    block_on_local(async {
        let (address, mut ends) = watched(settings);
        let mut client = Client::connect(address).await;
        for _ in 0..3 {
            assert_eq!(client.message().await, Some(Message::Ping(Vec::new())));
            client.send(frame(Opcode::Pong, true, b"")).await;
        }
        client.send(goodbye(1000, "")).await;
        assert_eq!(end(&mut ends).await, Closed::new(1000, ""));
    });
}

#[test]
fn a_silent_client_gets_a_ping_and_is_disconnected() {
    let ping_every = settings::Duration::from_millis(8);
    let ping_timeout = settings::Duration::from_millis(8);
    let settings = WebSocketSettings { ping_every, ping_timeout, ..WebSocketSettings::default() };
    block_on_local(async {
        let (address, mut ends) = watched(settings);
        let mut client = Client::connect(address).await;
        assert_eq!(client.message().await, Some(Message::Ping(Vec::new())));
        assert_eq!(client.message().await, None);
        assert_eq!(end(&mut ends).await, Closed::new(1006, "no response to a ping"));
    });
}

#[test]
fn a_draining_server_closes_with_1012() {
    block_on_local(async {
        let (ended, mut ends) = unbounded_channel();
        let (address, service) = start(WebSocketSettings::default(), move |handed| {
            ended.send(echo(handed)).unwrap();
        });
        let mut client = Client::connect(address).await;
        client.send(text("x")).await;
        assert_eq!(client.message().await, Some(Message::Text(b"x".to_vec())));
        service.drain();
        let Some(Message::Close(Some(1012), _)) = client.message().await else { panic!("1012") };
        client.send(goodbye(1012, "")).await;
        assert_eq!(client.message().await, None);
        assert_eq!(end(&mut ends).await.code, 1012);
    });
}

#[test]
fn a_client_that_leaves_before_the_decision_is_reported() {
    let (ended, mut ends) = unbounded_channel();
    block_on_local(async {
        let (address, _) = start(WebSocketSettings::default(), move |mut handed| {
            let gone = next(&mut handed.session);
            assert!(handed.session.accept(Accepted::default()).is_err());
            let offload::session::Received::Closed(closed) = gone else { panic!() };
            ended.send(closed).unwrap();
        });
        let client = Client::dial(address).await;
        client.send(crate::client::request("")).await;
        drop(client);
        assert_eq!(end(&mut ends).await, Closed::new(1006, ""));
    });
}
