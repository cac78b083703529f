//! The chat: every guest gets every message, and a departure is announced.

use super::{Example, client};
use scenarios::WebSocketClient;

fn enter(chat: &Example) -> WebSocketClient {
    WebSocketClient::connect(chat.address, "/chat")
}

fn hears(guest: &mut WebSocketClient, text: &str) {
    assert_eq!(guest.receive(), (WebSocketClient::TEXT, text.to_owned()));
}

#[test]
fn every_guest_gets_every_message() {
    let chat = Example::start("chat.lua", &[]);
    let mut first = enter(&chat);
    hears(&mut first, "guest 1 is here");
    let mut second = enter(&chat);
    hears(&mut first, "guest 2 is here");
    hears(&mut second, "guest 2 is here");
    first.send(1, b"good day");
    hears(&mut first, "guest 1: good day");
    hears(&mut second, "guest 1: good day");
    // A ping gets a response by the server itself.
    first.send(9, b"still there?");
    assert_eq!(first.receive(), (10, "still there?".to_owned()));
    second.send(8, &1000u16.to_be_bytes());
    hears(&mut first, "guest 2 has left");
    drop(first);
    if let Some(page) = client("curl", &["-s", &format!("http://{}/", chat.address)]) {
        assert!(page.stdout.contains("new WebSocket("), "{page:?}");
    }
    chat.stop();
}
