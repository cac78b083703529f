//! One connection to a store.
//!
//! Promises that replies come in the order of the commands, that a message published before a
//! command of this connection is sent before its reply, that unread replies stop the reading of
//! commands, and that unread messages end the connection.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use net::Stream;
use wire::resp;

use crate::commands::execute;
use crate::database::Database;
use crate::limits::{
    ARGUMENTS, COMMAND_BYTES, FRAMING_BYTES, LINE_BYTES, PENDING_REPLY_BYTES, REUSED_BUFFER_BYTES,
    VALUE_BYTES,
};
use crate::reply_writer::ReplyWriter;
use crate::session::Session;
use crate::subscriber_queue::QueueClosed;

pub(crate) const LIMITS: resp::Limits =
    resp::Limits { line: LINE_BYTES, args: ARGUMENTS, bulk: VALUE_BYTES };

struct Connection {
    database: Arc<Database>,
    stream: Stream,
    session: Session,
    out: ReplyWriter,
    /// Commands that are not executed yet; the last may be incomplete.
    input: Vec<u8>,
    /// Byte ranges of a command's arguments.
    ranges: Vec<Range<usize>>,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(database: Arc<Database>, stream: Stream) {
    database.metrics.connections.inc();
    let session = Session::new(&database);
    let (input, ranges) = (Vec::new(), Vec::new());
    let mut connection =
        Connection { database, stream, session, out: ReplyWriter::new(), input, ranges };
    // An error means only that the peer is gone.
    let _ = poll_fn(|cx| connection.poll(cx)).await;
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.database.metrics.connections.dec();
    }
}

impl Connection {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.session.queue.poll_closed(cx.waker()) == Some(QueueClosed::TooSlow) {
                self.database.metrics.slow.inc();
                return Poll::Ready(Ok(()));
            }
            let more = self.execute();
            let sent = self.poll_send(cx)?;
            if self.out.length() >= PENDING_REPLY_BYTES {
                return Poll::Pending;
            }
            if more {
                continue;
            }
            if self.session.closing {
                return sent.map(Ok);
            }
            let chunk = ready!(self.stream.poll_receive(cx))?;
            self.session.closing = chunk.is_empty();
            self.input.extend_from_slice(&chunk);
        }
    }

    /// Writes queued messages while there is room.
    fn deliver(&mut self) {
        while self.out.length() < PENDING_REPLY_BYTES {
            match self.session.queue.pop() {
                Ok(Some(message)) => self.out.message(&message),
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Delivers messages and executes what has arrived; returns true if more is left than there is
    /// room for.
    fn execute(&mut self) -> bool {
        let mut at = 0;
        let more = loop {
            self.deliver();
            if self.out.length() >= PENDING_REPLY_BYTES {
                break true;
            }
            let rest = &self.input[at..];
            match resp::parse_command(rest, &LIMITS, &mut self.ranges) {
                Ok(Some(length)) => {
                    if !self.ranges.is_empty() {
                        let Connection { database, session, out, ranges, .. } = self;
                        execute(database, &rest[..length], ranges, session, out);
                    }
                    at += length;
                }
                Ok(None) if rest.len() <= COMMAND_BYTES + FRAMING_BYTES => break false,
                Ok(None) => break self.reject(&mut at, "ERR the command is too large"),
                Err(fault) => break self.reject(&mut at, fault.text()),
            }
            if self.session.closing {
                // Input after `QUIT` is ignored.
                at = self.input.len();
            }
        };
        self.input.drain(..at);
        if self.input.is_empty() && self.input.capacity() > REUSED_BUFFER_BYTES {
            self.input = Vec::new();
        }
        more
    }

    /// Replies with an error and ends the connection: the rest of its input cannot be parsed.
    fn reject(&mut self, at: &mut usize, why: &str) -> bool {
        self.database.metrics.refused.inc();
        self.out.error(why);
        self.session.closing = true;
        *at = self.input.len();
        false
    }

    /// Ready when everything is sent.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        if let Some(bytes) = self.out.contiguous() {
            if bytes.is_empty() {
                return Ok(Poll::Ready(()));
            }
            match self.stream.try_send_slice(bytes) {
                Ok(sent) => self.out.consume(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        while self.out.length() > 0 {
            match self.stream.poll_send(cx, self.out.outgoing()) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => return Ok(Poll::Pending),
            };
        }
        Ok(Poll::Ready(()))
    }
}

#[cfg(test)]
mod tests;
