//! The control socket between a supervisor and a worker process, or a preloader: messages in both
//! directions.
//!
//! A frame is its length (four bytes, little-endian) and a JSON object with one key. Both ends have
//! the same version. A frame that is too long or malformed ends the connection. A message that is
//! not received in time does not block the sender: what is missing of its frame is sent before the
//! next one.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use net::{Outgoing, Stream};
use serde_json::{Value, json};
use telemetry::ErrorRecord;

use super::limits::{FRAME_BYTES, SEND_WITHIN};
use super::preloader_message::{PreloaderCommand, PreloaderMessage};
use super::request_errors;
use super::stats::Stats;

/// A message of a worker.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WorkerMessage {
    /// It accepts requests.
    Ready,
    /// It could not start; the reason is a sentence.
    Failed(String),
    /// The periodic report of its I/O thread.
    Stats(Box<Stats>),
    /// The exceptions that requests have raised since the previous message of this kind.
    Errors(Vec<ErrorRecord>),
    /// The stacks of its application.
    Stalled(String),
    /// It has stopped accepting; the number of requests in flight.
    Draining(u64),
    /// The drain time-out is over: the number of connections that are cut off.
    CutOff(u64),
    /// Its metrics, in the Prometheus text format.
    Metrics(String),
}

/// A command for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SupervisorCommand {
    /// Stop accepting, finish requests in flight within this time, and exit.
    Drain(Duration),
    /// Exit at once.
    Stop,
    /// Send the stacks of the application.
    Dump,
    /// Send the metrics.
    Metrics,
    /// Reopen log files after a rotation.
    ReopenLogs,
    /// An interrupt ends the server; a command to drain follows.
    Interrupted,
}

impl WorkerMessage {
    fn to_json(&self) -> Value {
        match self {
            WorkerMessage::Ready => json!({ "ready": true }),
            WorkerMessage::Failed(why) => json!({ "failed": why }),
            WorkerMessage::Stats(stats) => json!({ "stats": stats.to_json() }),
            WorkerMessage::Errors(errors) => json!({ "errors": request_errors::to_json(errors) }),
            WorkerMessage::Stalled(stack) => json!({ "stalled": stack }),
            WorkerMessage::Draining(requests) => json!({ "draining": requests }),
            WorkerMessage::CutOff(connections) => json!({ "cut_off": connections }),
            WorkerMessage::Metrics(text) => json!({ "metrics": text }),
        }
    }

    fn from_json(value: &Value) -> Option<WorkerMessage> {
        let (key, value) = value.as_object()?.iter().next()?;
        let text = || value.as_str().map(str::to_owned);
        Some(match key.as_str() {
            "ready" => WorkerMessage::Ready,
            "failed" => WorkerMessage::Failed(text()?),
            "stats" => WorkerMessage::Stats(Box::new(Stats::from_json(value)?)),
            "errors" => WorkerMessage::Errors(request_errors::from_json(value)?),
            "stalled" => WorkerMessage::Stalled(text()?),
            "draining" => WorkerMessage::Draining(value.as_u64()?),
            "cut_off" => WorkerMessage::CutOff(value.as_u64()?),
            "metrics" => WorkerMessage::Metrics(text()?),
            _ => return None,
        })
    }
}

impl SupervisorCommand {
    fn to_json(self) -> Value {
        match self {
            SupervisorCommand::Drain(within) => {
                let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
                json!({ "drain": { "within_ms": within_ms } })
            }
            SupervisorCommand::Stop => json!({ "stop": true }),
            SupervisorCommand::Dump => json!({ "dump": true }),
            SupervisorCommand::Metrics => json!({ "metrics": true }),
            SupervisorCommand::ReopenLogs => json!({ "reopen_logs": true }),
            SupervisorCommand::Interrupted => json!({ "interrupted": true }),
        }
    }

    fn from_json(value: &Value) -> Option<SupervisorCommand> {
        let (key, value) = value.as_object()?.iter().next()?;
        Some(match key.as_str() {
            "drain" => {
                SupervisorCommand::Drain(Duration::from_millis(value["within_ms"].as_u64()?))
            }
            "stop" => SupervisorCommand::Stop,
            "dump" => SupervisorCommand::Dump,
            "metrics" => SupervisorCommand::Metrics,
            "reopen_logs" => SupervisorCommand::ReopenLogs,
            "interrupted" => SupervisorCommand::Interrupted,
            _ => return None,
        })
    }
}

/// One end of the socket.
pub(crate) struct ControlChannel {
    stream: Stream,
    received: RefCell<BytesMut>,
    /// What is unsent of the last frame. Held while a frame is sent, so that frames do not mix.
    sending: tokio::sync::Mutex<Outgoing>,
}

impl ControlChannel {
    pub(crate) fn new(stream: Stream) -> ControlChannel {
        ControlChannel {
            stream,
            received: RefCell::default(),
            sending: tokio::sync::Mutex::default(),
        }
    }

    /// Sends a message to the supervisor. An error means that it has exited.
    pub(crate) async fn send_message(&self, message: &WorkerMessage) -> io::Result<()> {
        self.send(&message.to_json(), &[]).await
    }

    /// Sends a command to the worker.
    pub(crate) async fn send_command(&self, command: SupervisorCommand) -> io::Result<()> {
        self.send(&command.to_json(), &[]).await
    }

    /// Sends a command to a preloader, with the descriptors of a worker.
    pub(crate) async fn send_to_preloader(
        &self,
        command: &PreloaderCommand,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.send(&command.to_json(), descriptors).await
    }

    /// Receives the preloader's next message; `None` at the end. Dropping this future loses
    /// nothing.
    pub(crate) async fn next_of_preloader(&self) -> io::Result<Option<PreloaderMessage>> {
        self.next(PreloaderMessage::from_json).await
    }

    /// Announces that nothing more is sent.
    pub(crate) fn finish(&self) {
        self.stream.finish();
    }

    /// Receives the worker's next message; `None` at the end. Dropping this future loses nothing.
    pub(crate) async fn next_message(&self) -> io::Result<Option<WorkerMessage>> {
        self.next(WorkerMessage::from_json).await
    }

    /// Receives the supervisor's next command; `None` at the end. Dropping this future loses
    /// nothing.
    pub(crate) async fn next_command(&self) -> io::Result<Option<SupervisorCommand>> {
        self.next(SupervisorCommand::from_json).await
    }

    async fn send(&self, value: &Value, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = value.to_string();
        let length = u32::try_from(text.len()).ok().filter(|_| text.len() <= FRAME_BYTES);
        let length = length.ok_or_else(|| invalid("a message is too long"))?;
        let mut frame = Bytes::from([&length.to_le_bytes(), text.as_bytes()].concat());
        let sent = async {
            let mut unsent = self.sending.lock().await;
            self.stream.send_all(&mut unsent).await?;
            if !descriptors.is_empty() {
                frame.advance(self.stream.send_with_descriptors(&frame, descriptors).await?);
            }
            unsent.push(frame);
            self.stream.send_all(&mut unsent).await
        };
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the other end does not receive");
        net::timer::within(SEND_WITHIN, sent).await.unwrap_or_else(|| Err(late()))
    }

    /// Skips messages that this version does not know.
    async fn next<T>(&self, read: impl Fn(&Value) -> Option<T>) -> io::Result<Option<T>> {
        loop {
            while let Some(frame) = self.frame()? {
                let value: Value =
                    serde_json::from_slice(&frame).map_err(|_| invalid("not JSON"))?;
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

    fn pair() -> (ControlChannel, Stream) {
        let (one, other) = Stream::pair().unwrap();
        (ControlChannel::new(one), other)
    }

    #[test]
    fn what_is_reported_is_received_in_order() {
        net::worker::block_on_local(async {
            let (one, other) = pair();
            let other = ControlChannel::new(other);
            let stats = Stats { requests: 7, rss_bytes: 1 << 30, ..Stats::default() };
            let messages = [
                WorkerMessage::Ready,
                WorkerMessage::Failed("no module named \"app\"".to_owned()),
                WorkerMessage::Stats(Box::new(stats)),
                WorkerMessage::Errors(vec![ErrorRecord { times: 1, ..ErrorRecord::default() }]),
                WorkerMessage::Stalled("File \"app.py\", line 3\n".to_owned()),
                WorkerMessage::Draining(4),
                WorkerMessage::CutOff(2),
                WorkerMessage::Metrics("# HELP a b\na 1\n".to_owned()),
            ];
            for message in &messages {
                one.send_message(message).await.unwrap();
            }
            for message in messages {
                assert_eq!(other.next_message().await.unwrap(), Some(message));
            }
            let commands = [
                SupervisorCommand::Drain(Duration::from_millis(1500)),
                SupervisorCommand::Stop,
                SupervisorCommand::Dump,
                SupervisorCommand::Metrics,
                SupervisorCommand::ReopenLogs,
                SupervisorCommand::Interrupted,
            ];
            for command in commands {
                other.send_command(command).await.unwrap();
            }
            for command in commands {
                assert_eq!(one.next_command().await.unwrap(), Some(command));
            }
            drop(other);
            assert_eq!(one.next_command().await.unwrap(), None);
        });
    }

    #[test]
    fn frames_may_arrive_in_pieces_and_unknown_messages_are_skipped() {
        net::worker::block_on_local(async {
            let (channel, other) = pair();
            let mut bytes = Vec::new();
            for text in ["{\"later\":1}", "{\"ready\":true}"] {
                bytes.extend((text.len() as u32).to_le_bytes());
                bytes.extend(text.as_bytes());
            }
            let (first, rest) = bytes.split_at(20);
            other.try_send_slice(first).unwrap();
            let half = net::timer::within(Duration::from_millis(20), channel.next_message()).await;
            assert!(half.is_none(), "given up in the middle of a frame");
            other.try_send_slice(rest).unwrap();
            assert_eq!(channel.next_message().await.unwrap(), Some(WorkerMessage::Ready));
        });
    }

    #[test]
    fn a_frame_that_its_sender_gave_up_is_completed() {
        net::worker::block_on_local(async {
            let (one, other) = pair();
            let other = ControlChannel::new(other);
            // More than the socket holds.
            let long = WorkerMessage::Metrics("a".repeat(4 << 20));
            tokio::select! {
                biased;
                sent = one.send_message(&long) => panic!("the other end reads nothing: {sent:?}"),
                () = std::future::ready(()) => {}
            }
            let received = async { [other.next_message().await, other.next_message().await] };
            let (sent, received) = tokio::join!(one.send_message(&WorkerMessage::Ready), received);
            sent.unwrap();
            assert_eq!(received.map(Result::unwrap), [Some(long), Some(WorkerMessage::Ready)]);
        });
    }

    #[test]
    fn a_malformed_frame_ends_the_connection() {
        net::worker::block_on_local(async {
            for bytes in [&[255, 255, 255, 255][..], b"\x02\x00\x00\x00{x"] {
                let (channel, other) = pair();
                other.try_send_slice(bytes).unwrap();
                assert!(channel.next_message().await.is_err());
            }
        });
    }
}
