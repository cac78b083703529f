//! Which bytes leave together, since each packet costs both sides a system call, and that none
//! leaves twice.

use std::mem::MaybeUninit;
use std::pin::pin;

use super::*;

/// True if the peer has sent something that was not received.
fn has_arrived(stream: &Stream) -> bool {
    SockRef::from(stream.source()).peek(&mut [MaybeUninit::uninit()]).is_ok()
}

/// Both sides of a connection whose client has sent `request` before the server read the last
/// message of the handshake.
async fn connected_with(
    request: &'static str,
    server: &ServerTls,
    client: &ClientTls,
) -> (Stream, Stream) {
    let name = CertificateName::new("a.test").unwrap();
    let (one, other) = Stream::pair().unwrap();
    SockRef::from(one.source()).set_send_buffer_size(4096).unwrap();
    let mut accepting = pin!(one.accept_tls(server));
    let other = tokio::select! {
        biased;
        connected = other.connect_tls(client, &name) => connected.unwrap(),
        _ = &mut accepting => panic!("accepted before the client was done"),
    };
    send(&other, request).await;
    (accepting.await.unwrap(), other)
}

#[test]
fn a_ticket_leaves_with_the_response_to_a_request_that_arrived_with_the_handshake() {
    block_on_local(async {
        let issuer = authority("ca");
        let server = ServerTls::new(server_options(&issuer)).unwrap();
        let client = client(&issuer);
        let (one, other) = connected_with("request", &server, &client).await;
        assert!(!has_arrived(&other), "the ticket was sent alone");
        assert_eq!(one.receive().await.unwrap(), "request");
        send(&one, "response").await;
        assert_eq!(other.receive().await.unwrap(), "response");
        let (one, other) = connect(&server, &client, "a.test").await;
        let (one, other) = (one.unwrap(), other.unwrap());
        assert!(one.tls().unwrap().is_resumed);
        // Without a request the ticket does not wait for one.
        assert!(has_arrived(&other), "the ticket was not sent");
    });
}

#[test]
fn a_ticket_that_waits_leaves_when_the_server_reads_on() {
    block_on_local(async {
        let issuer = authority("ca");
        let server = ServerTls::new(server_options(&issuer)).unwrap();
        let client = client(&issuer);
        let (one, other) = connected_with("upload", &server, &client).await;
        assert_eq!(one.receive().await.unwrap(), "upload");
        assert!(one.try_receive().is_err() && has_arrived(&other), "the ticket was not sent");
    });
}

#[test]
fn close_notify_leaves_with_the_last_bytes_of_the_queue() {
    block_on_local(async {
        let issuer = authority("ca");
        // Longer than one call encrypts.
        for length in [1, 200_000] {
            let (one, other) = connected(server_options(&issuer), &issuer, "a.test").await;
            let content = pattern(length);
            one.end_with_queue();
            let mut outgoing = Outgoing::default();
            outgoing.push(content.clone().into());
            let (sent, received) = tokio::join!(one.send_all(&mut outgoing), receive_all(&other));
            sent.unwrap();
            assert!(received.unwrap() == content, "{length} bytes and the end");
            one.close_notify();
            assert!(!has_arrived(&other), "the end is announced once");
        }
        // Borrowed bytes.
        let (one, other) = connected(server_options(&issuer), &issuer, "a.test").await;
        one.end_with_queue();
        assert_eq!(one.try_send_slice(b"all").unwrap(), 3);
        assert_eq!(receive_all(&other).await.unwrap(), b"all");
    });
}

/// Sends all of `content`, and reads whenever the socket is full.
async fn send_while_reading(stream: &Stream, content: &[u8]) {
    let mut outgoing = Outgoing::default();
    outgoing.push(Bytes::copy_from_slice(content));
    while !outgoing.is_empty() {
        match stream.try_send(&mut outgoing) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_fn(|cx| stream.poll_writable(cx)).await.unwrap();
                // The socket has room, and what was received is read before more is sent.
                while stream.try_receive().is_ok() {}
            }
            sent => assert!(sent.unwrap() > 0),
        }
    }
}

/// Receives `content` up to the end, and sends something before each part of it.
async fn receive_only(stream: &Stream, content: &[u8], between: &'static str) {
    let mut rest = content;
    loop {
        send(stream, between).await;
        let chunk = stream.receive().await.unwrap();
        if chunk.is_empty() {
            return assert!(rest.is_empty(), "{} bytes are missing", rest.len());
        }
        let at = content.len() - rest.len();
        rest = rest.strip_prefix(&chunk[..]).unwrap_or_else(|| panic!("wrong bytes after {at}"));
    }
}

#[test]
fn a_read_between_two_sends_repeats_nothing() {
    block_on_local(async {
        let issuer = authority("ca");
        let (one, other) = connected(server_options(&issuer), &issuer, "a.test").await;
        SockRef::from(one.source()).set_send_buffer_size(4096).unwrap();
        let content = pattern(300_000);
        let sending = async {
            send_while_reading(&one, &content).await;
            one.finish();
        };
        let receiving = receive_only(&other, &content, "a window update");
        tokio::join!(receiving, sending);
    });
}

#[test]
fn a_slow_client_receives_ticket_response_and_end_once() {
    block_on_local(async {
        let issuer = authority("ca");
        let server = ServerTls::new(server_options(&issuer)).unwrap();
        let client = client(&issuer);
        let (one, other) = connected_with("request", &server, &client).await;
        assert_eq!(one.receive().await.unwrap(), "request");
        let content = pattern(300_000);
        let sending = async {
            one.end_with_queue();
            send_while_reading(&one, &content).await;
        };
        tokio::join!(receive_only(&other, &content, ""), sending);
    });
}
