//! WebSocket: handshakes and echoed messages.

use super::{Act, END, Scripted, consistent, is_something, plan, until};
use crate::load::{Errors, LoadOutcome, LoadPlan, Target, Traffic, greeting, run};
use std::time::Duration;

const WELCOME: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// A text that is sent so that it ends like a head, which is what scripts wait for: its end and the
/// mask of the generator make CR LF CR LF.
fn text() -> Vec<u8> {
    let end = END.iter().zip([0x37, 0xfa, 0x21, 0x3d]).map(|(byte, mask)| byte ^ mask);
    b"echo".iter().copied().chain(end).collect()
}

fn echo() -> Vec<u8> {
    [&[0x81, 8][..], &text()].concat()
}

/// Welcomes with these bytes, and says those for each text.
fn says(welcome: &'static [u8], answer: Vec<u8>) -> Scripted {
    Scripted::with_bytes(END, move |bytes| {
        let bytes = if bytes.starts_with(b"GET") { welcome } else { &answer };
        vec![Act::Send(bytes.to_vec())]
    })
}

fn load(server: &Scripted, plan: &LoadPlan) -> LoadOutcome {
    let traffic = Traffic::WebSocket { greeting: greeting("a", "/"), text: text() };
    consistent(run(&Target { address: server.address.clone(), tls: None, traffic }, plan).unwrap())
}

#[test]
fn texts_are_echoed_over_connections_that_are_greeted_once() {
    let mut server;
    let found = loop {
        server = says(WELCOME, echo());
        let found = load(&server, &plan());
        assert_eq!(found.errors, Errors::default());
        // As many loads as it takes on a busy machine.
        if found.requests > 0 {
            break found;
        }
    };
    assert_eq!((server.accepted(), found.reconnects), (2, 0));
    assert!(server.asked() >= found.requests + 2);
}

#[test]
fn what_is_echoed_wrongly_is_an_error() {
    let mut other = echo();
    other[4] ^= 1;
    let load = |answer: Vec<u8>| {
        let server = says(WELCOME, answer);
        until(|| load(&server, &plan()), is_something)
    };
    let found = load(other);
    assert!(found.errors.body > 0 && found.requests == 0, "{found:?}");
    let found = load(vec![0x88, 0]);
    assert!(found.errors.status > 0 && found.requests == 0, "{found:?}");
}

#[test]
fn a_refused_handshake_is_an_error_and_is_tried_again_later() {
    let server = says(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", Vec::new());
    let timeout = Duration::from_secs(5);
    let found = load(&server, &LoadPlan { timeout, ..plan() });
    assert!(found.errors.status > 0 && found.requests == 0, "{found:?}");
    assert_eq!(found.errors, Errors { status: found.errors.status, ..Errors::default() });
    // Two connections, each again after 10 ms or more, in less than ten seconds.
    assert!(server.accepted() < 2000, "{}", server.accepted());
}

#[test]
fn a_handshake_without_an_end_is_a_connection_that_was_not_made() {
    let timeout = Duration::from_millis(60);
    let found = load(&says(b"HTTP/1.1 101", Vec::new()), &LoadPlan { timeout, ..plan() });
    assert!(found.errors.connect > 0 && found.requests == 0, "{found:?}");
}
