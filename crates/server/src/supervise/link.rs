//! The control socket between a supervisor and a worker process: messages both ways.
//!
//! A frame is its length (four bytes, little-endian) and a JSON object with one key. Owned by both
//! ends, which are of one version. Promises that a frame too long or unreadable ends the
//! conversation, and that a message which nobody takes in time does not hold the sender up.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use net::{Outgoing, Stream};
use serde_json::{Value, json};

use super::limits::{FRAME_BYTES, SEND_WITHIN};
use super::stats::Stats;

/// What a worker says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// It accepts.
    Ready,
    /// It cannot begin: why, in a sentence.
    Failed(String),
    /// Every second: the heart of its I/O thread.
    Stats(Box<Stats>),
    /// Where its application stands.
    Stalled(String),
    /// It takes nothing new; so many requests are under way.
    Draining(u64),
    /// Its time to drain is over: so many connections are cut off.
    CutOff(u64),
    /// Its metrics, in the Prometheus text format.
    Metrics(String),
}

/// What a worker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Take nothing new, finish what is under way within this time, and end.
    Drain(Duration),
    /// End now.
    Stop,
    /// Say where the application stands.
    Dump,
    /// Say what was counted.
    Metrics,
    /// Open log files again: after a rotation.
    ReopenLogs,
}

impl Word {
    fn to_json(&self) -> Value {
        match self {
            Word::Ready => json!({ "ready": true }),
            Word::Failed(why) => json!({ "failed": why }),
            Word::Stats(stats) => json!({ "stats": stats.to_json() }),
            Word::Stalled(stack) => json!({ "stalled": stack }),
            Word::Draining(requests) => json!({ "draining": requests }),
            Word::CutOff(connections) => json!({ "cut_off": connections }),
            Word::Metrics(text) => json!({ "metrics": text }),
        }
    }

    fn from_json(value: &Value) -> Option<Word> {
        let (key, value) = value.as_object()?.iter().next()?;
        let text = || value.as_str().map(str::to_owned);
        Some(match key.as_str() {
            "ready" => Word::Ready,
            "failed" => Word::Failed(text()?),
            "stats" => Word::Stats(Box::new(Stats::from_json(value)?)),
            "stalled" => Word::Stalled(text()?),
            "draining" => Word::Draining(value.as_u64()?),
            "cut_off" => Word::CutOff(value.as_u64()?),
            "metrics" => Word::Metrics(text()?),
            _ => return None,
        })
    }
}

impl Order {
    fn to_json(self) -> Value {
        match self {
            Order::Drain(within) => {
                let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
                json!({ "drain": { "within_ms": within_ms } })
            }
            Order::Stop => json!({ "stop": true }),
            Order::Dump => json!({ "dump": true }),
            Order::Metrics => json!({ "metrics": true }),
            Order::ReopenLogs => json!({ "reopen_logs": true }),
        }
    }

    fn from_json(value: &Value) -> Option<Order> {
        let (key, value) = value.as_object()?.iter().next()?;
        Some(match key.as_str() {
            "drain" => Order::Drain(Duration::from_millis(value["within_ms"].as_u64()?)),
            "stop" => Order::Stop,
            "dump" => Order::Dump,
            "metrics" => Order::Metrics,
            "reopen_logs" => Order::ReopenLogs,
            _ => return None,
        })
    }
}

/// One end.
pub(crate) struct Link {
    stream: Stream,
    received: RefCell<BytesMut>,
    /// Held while a frame goes out, so that frames do not mix.
    sending: tokio::sync::Mutex<()>,
}

impl Link {
    pub(crate) fn new(stream: Stream) -> Link {
        Link { stream, received: RefCell::default(), sending: tokio::sync::Mutex::new(()) }
    }

    /// The worker's end speaks. An error means that nobody listens.
    pub(crate) async fn say(&self, word: &Word) -> io::Result<()> {
        self.send(&word.to_json()).await
    }

    /// The supervisor's end speaks.
    pub(crate) async fn tell(&self, order: Order) -> io::Result<()> {
        self.send(&order.to_json()).await
    }

    /// What the worker says next; `None` at the end. Dropping this loses nothing.
    pub(crate) async fn hear(&self) -> io::Result<Option<Word>> {
        self.next(Word::from_json).await
    }

    /// What the supervisor tells next; `None` at the end. Dropping this loses nothing.
    pub(crate) async fn told(&self) -> io::Result<Option<Order>> {
        self.next(Order::from_json).await
    }

    async fn send(&self, value: &Value) -> io::Result<()> {
        let text = value.to_string();
        let length = u32::try_from(text.len()).ok().filter(|_| text.len() <= FRAME_BYTES);
        let length = length.ok_or_else(|| invalid("a message is too long"))?;
        let mut outgoing = Outgoing::default();
        outgoing.push(Bytes::from([&length.to_le_bytes(), text.as_bytes()].concat()));
        let sent = async {
            let _turn = self.sending.lock().await;
            self.stream.send_all(&mut outgoing).await
        };
        let late = || io::Error::new(io::ErrorKind::TimedOut, "nobody takes what is said");
        net::timer::within(SEND_WITHIN, sent).await.unwrap_or_else(|| Err(late()))
    }

    /// Messages that this version does not know are passed over.
    async fn next<T>(&self, read: impl Fn(&Value) -> Option<T>) -> io::Result<Option<T>> {
        loop {
            while let Some(frame) = self.frame()? {
                let value: Value =
                    serde_json::from_slice(&frame).map_err(|_| invalid("no JSON"))?;
                if let Some(message) = read(&value) {
                    return Ok(Some(message));
                }
            }
            let piece = self.stream.receive().await?;
            if piece.is_empty() {
                return Ok(None);
            }
            self.received.borrow_mut().extend_from_slice(&piece);
        }
    }

    fn frame(&self) -> io::Result<Option<BytesMut>> {
        let mut received = self.received.borrow_mut();
        let Some(length) = received.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_BYTES {
            return Err(invalid("a message is too long"));
        }
        if received.len() < 4 + length {
            return Ok(None);
        }
        received.advance(4);
        Ok(Some(received.split_to(length)))
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Link, Stream) {
        let (one, other) = Stream::pair().unwrap();
        (Link::new(one), other)
    }

    #[test]
    fn what_is_said_is_heard_in_order() {
        net::worker::block_on_local(async {
            let (one, other) = pair();
            let other = Link::new(other);
            let stats = Stats { requests: 7, rss_bytes: 1 << 30, ..Stats::default() };
            let words = [
                Word::Ready,
                Word::Failed("no module named \"app\"".to_owned()),
                Word::Stats(Box::new(stats)),
                Word::Stalled("File \"app.py\", line 3\n".to_owned()),
                Word::Draining(4),
                Word::CutOff(2),
                Word::Metrics("# HELP a b\na 1\n".to_owned()),
            ];
            for word in &words {
                one.say(word).await.unwrap();
            }
            for word in words {
                assert_eq!(other.hear().await.unwrap(), Some(word));
            }
            let orders = [
                Order::Drain(Duration::from_millis(1500)),
                Order::Stop,
                Order::Dump,
                Order::Metrics,
                Order::ReopenLogs,
            ];
            for order in orders {
                other.tell(order).await.unwrap();
            }
            for order in orders {
                assert_eq!(one.told().await.unwrap(), Some(order));
            }
            drop(other);
            assert_eq!(one.told().await.unwrap(), None);
        });
    }

    #[test]
    fn frames_may_come_in_pieces_and_strangers_are_passed_over() {
        net::worker::block_on_local(async {
            let (link, other) = pair();
            let mut bytes = Vec::new();
            for text in ["{\"later\":1}", "{\"ready\":true}"] {
                bytes.extend((text.len() as u32).to_le_bytes());
                bytes.extend(text.as_bytes());
            }
            let (first, rest) = bytes.split_at(20);
            other.try_send_slice(first).unwrap();
            let half = net::timer::within(Duration::from_millis(20), link.hear()).await;
            assert!(half.is_none(), "given up in the middle of a frame");
            other.try_send_slice(rest).unwrap();
            assert_eq!(link.hear().await.unwrap(), Some(Word::Ready));
        });
    }

    #[test]
    fn nonsense_ends_the_conversation() {
        net::worker::block_on_local(async {
            for bytes in [&[255, 255, 255, 255][..], b"\x02\x00\x00\x00{x"] {
                let (link, other) = pair();
                other.try_send_slice(bytes).unwrap();
                assert!(link.hear().await.is_err());
            }
        });
    }
}
