//! Connections byte by byte: input, output and end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use net::{Outgoing, Stream, task, timer, worker};

use super::serve;
use crate::database::Database;
use crate::limits::{COMMAND_BYTES, CONNECTION_QUEUE_BYTES, MESSAGE_BYTES, PENDING_REPLY_BYTES};

const LONG: Duration = Duration::from_secs(60);

struct Peer {
    stream: Stream,
    got: Vec<u8>,
}

impl Peer {
    fn of(database: &Arc<Database>) -> Peer {
        let (stream, other) = Stream::pair().unwrap();
        task::spawn_local(serve(database.clone(), other));
        Peer { stream, got: Vec::new() }
    }

    async fn send(&self, bytes: impl Into<Bytes>) {
        let mut outgoing = Outgoing::default();
        outgoing.push(bytes.into());
        let sent = timer::within(LONG, self.stream.send_all(&mut outgoing)).await;
        sent.expect("room in time").unwrap();
    }

    /// Reads more bytes; false at the end.
    async fn more(&mut self) -> bool {
        let received = timer::within(LONG, self.stream.receive()).await.expect("bytes in time");
        let chunk = received.unwrap_or_default();
        self.got.extend_from_slice(&chunk);
        !chunk.is_empty()
    }

    /// Reads exactly these bytes.
    async fn expect(&mut self, bytes: &str) {
        while self.got.len() < bytes.len() && self.more().await {}
        let found: Vec<u8> = self.got.drain(..bytes.len().min(self.got.len())).collect();
        assert_eq!(String::from_utf8_lossy(&found), bytes);
    }

    async fn rest(&mut self) -> String {
        while self.more().await {}
        String::from_utf8_lossy(&std::mem::take(&mut self.got)).into_owned()
    }
}

#[test]
fn commands_are_executed_in_order_however_they_are_split() {
    worker::block_on_local(async {
        let database = Database::private();
        let mut peer = Peer::of(&database);
        let commands = b"PING\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\n\r\n\r\n\r\n\r\n\
                         *2\r\n$3\r\nGET\r\n$1\r\na\r\nINCR n\r\nQUIT\r\nPING\r\n";
        let replies = "+PONG\r\n+OK\r\n$4\r\n\r\n\r\n\r\n:1\r\n+OK\r\n";
        peer.send(&commands[..]).await;
        assert_eq!(peer.rest().await, replies);
        let mut slow = Peer::of(&database);
        for byte in &commands[..commands.len() - "PING\r\n".len()] {
            slow.send(vec![*byte]).await;
        }
        assert_eq!(slow.rest().await, replies.replace(":1", ":2"));
        assert_eq!(database.metrics.commands.get(), 10);
    });
}

#[test]
fn malformed_input_ends_the_connection() {
    worker::block_on_local(async {
        let database = Database::private();
        let value = format!("$8388608\r\n{}\r\n", "x".repeat(8 << 20));
        let table = [
            ("*1\r\n+PING\r\n".to_owned(), "-ERR Protocol error: expected '$'\r\n"),
            ("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$8388609\r\n".to_owned(), INVALID),
            ("a".repeat(8192), "-ERR Protocol error: too big inline request\r\n"),
            (format!("*9\r\n{value}{value}{value}"), "-ERR the command is too large\r\n"),
        ];
        for (input, reply) in table {
            let length = input.len().min(COMMAND_BYTES + (1 << 20));
            let mut peer = Peer::of(&database);
            // The server may close before it has read everything.
            let mut outgoing = Outgoing::default();
            outgoing.push(Bytes::from(input).slice(..length));
            let _ = timer::within(LONG, peer.stream.send_all(&mut outgoing)).await;
            assert_eq!(peer.rest().await, reply);
        }
        assert_eq!((database.metrics.refused.get(), database.metrics.connections.get()), (4, 0));
    });
}

const INVALID: &str = "-ERR Protocol error: invalid bulk length\r\n";

#[test]
fn unread_replies_stop_the_commands() {
    worker::block_on_local(async {
        let database = Database::private();
        let mut peer = Peer::of(&database);
        let length = 1 << 20;
        peer.send(format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${length}\r\n")).await;
        peer.send(vec![b'x'; length]).await;
        peer.send("\r\n").await;
        peer.expect("+OK\r\n").await;
        let times = 64;
        peer.send("GET a\r\n".repeat(times)).await;
        peer.more().await;
        // Apart from the socket buffer, a bounded number is in flight.
        let executed = database.metrics.commands.get() as usize;
        assert!(
            executed < times / 2,
            "{executed} of {times} with {PENDING_REPLY_BYTES} bytes to send"
        );
        peer.send("QUIT\r\n").await;
        let reply = length + format!("${length}\r\n\r\n").len();
        assert_eq!(peer.rest().await.len(), times * reply + "+OK\r\n".len());
        assert_eq!(database.metrics.commands.get() as usize, times + 2);
    });
}

#[test]
fn a_message_is_sent_before_a_later_reply() {
    worker::block_on_local(async {
        let database = Database::private();
        let (mut one, mut other) = (Peer::of(&database), Peer::of(&database));
        one.send("SUBSCRIBE c\r\n").await;
        one.expect("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n").await;
        other.send("PUBLISH c hi\r\nPUBLISH c you\r\n").await;
        other.expect(":1\r\n:1\r\n").await;
        one.send("UNSUBSCRIBE\r\nPING\r\n").await;
        let message =
            |text: &str| format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${}\r\n{text}\r\n", text.len());
        one.expect(&message("hi")).await;
        one.expect(&message("you")).await;
        one.expect("*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n+PONG\r\n").await;
        one.send("HELLO 3\r\nSUBSCRIBE c\r\nPUBLISH c me\r\nQUIT\r\n").await;
        let all = one.rest().await;
        assert!(all.contains(">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n:1\r\n"), "{all}");
        assert!(all.contains(">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nme\r\n"), "{all}");
    });
}

#[test]
fn a_subscriber_that_does_not_read_is_dropped_and_delays_nothing() {
    worker::block_on_local(async {
        let database = Database::private();
        let (mut slow, mut quick) = (Peer::of(&database), Peer::of(&database));
        let mut publisher = Peer::of(&database);
        for peer in [&mut slow, &mut quick] {
            peer.send("SUBSCRIBE c\r\n").await;
            peer.expect("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n").await;
        }
        let head = format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${MESSAGE_BYTES}\r\n");
        let message = head.len() + MESSAGE_BYTES + 2;
        let mut reached = 2;
        // The queue of the connection, what is in flight, and the socket buffer.
        for _ in 0..CONNECTION_QUEUE_BYTES / MESSAGE_BYTES + 16 {
            publisher.send(format!("*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n${MESSAGE_BYTES}\r\n")).await;
            publisher.send(vec![b'm'; MESSAGE_BYTES]).await;
            publisher.send("\r\n").await;
            while quick.got.len() < message {
                assert!(quick.more().await, "the quick subscriber is not dropped");
            }
            quick.got.drain(..message);
            while publisher.got.len() < 4 {
                assert!(publisher.more().await);
            }
            reached = u64::from(publisher.got[1] - b'0');
            publisher.got.clear();
        }
        assert_eq!((reached, database.metrics.slow.get()), (1, 1));
        assert!(slow.rest().await.len() < CONNECTION_QUEUE_BYTES, "it ends");
        assert_eq!(database.metrics.subscriptions.get(), 1);
    });
}
