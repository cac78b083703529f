//! One connection to a store.
//!
//! Promises that answers come in the order of the commands, that a message which was published
//! before a command of this connection is sent before its answer, that answers nobody reads stop
//! the reading of commands, and that messages nobody reads end the connection.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use net::Stream;
use wire::resp;

use crate::commands::execute;
use crate::limits::{
    ANSWER_BYTES, ARGUMENTS, COMMAND_BYTES, FRAMING_BYTES, KEPT_BUFFER_BYTES, LINE_BYTES,
    VALUE_BYTES,
};
use crate::mailbox::Shut;
use crate::outlet::Outlet;
use crate::session::Session;
use crate::space::Space;

pub(crate) const LIMITS: resp::Limits =
    resp::Limits { line: LINE_BYTES, args: ARGUMENTS, bulk: VALUE_BYTES };

struct Connection {
    space: Arc<Space>,
    stream: Stream,
    session: Session,
    out: Outlet,
    /// Commands that are not executed yet; the last may not be whole.
    input: Vec<u8>,
    /// Places of a command's words.
    places: Vec<Range<usize>>,
}

/// Serves a connection to its end.
pub(crate) async fn serve(space: Arc<Space>, stream: Stream) {
    space.meters.connections.inc();
    let session = Session::new(&space);
    let (input, places) = (Vec::new(), Vec::new());
    let mut connection = Connection { space, stream, session, out: Outlet::new(), input, places };
    // A peer that is gone is all that an error means here.
    let _ = poll_fn(|cx| connection.poll(cx)).await;
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.space.meters.connections.dec();
    }
}

impl Connection {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.session.mailbox.watch(cx.waker()) == Some(Shut::TooSlow) {
                self.space.meters.slow.inc();
                return Poll::Ready(Ok(()));
            }
            let more = self.execute();
            let sent = self.poll_send(cx)?;
            if self.out.length() >= ANSWER_BYTES {
                return Poll::Pending;
            }
            if more {
                continue;
            }
            if self.session.ends {
                return sent.map(Ok);
            }
            let chunk = ready!(self.stream.poll_receive(cx))?;
            self.session.ends = chunk.is_empty();
            self.input.extend_from_slice(&chunk);
        }
    }

    /// Moves messages out, as many as there is room for.
    fn deliver(&mut self) {
        while self.out.length() < ANSWER_BYTES {
            match self.session.mailbox.take() {
                Ok(Some(message)) => self.out.message(&message),
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Delivers messages and executes what has arrived; whether there is more than there is room
    /// for.
    fn execute(&mut self) -> bool {
        let mut at = 0;
        let more = loop {
            self.deliver();
            if self.out.length() >= ANSWER_BYTES {
                break true;
            }
            let rest = &self.input[at..];
            match resp::parse_command(rest, &LIMITS, &mut self.places) {
                Ok(Some(length)) => {
                    if !self.places.is_empty() {
                        let Connection { space, session, out, places, .. } = self;
                        execute(space, &rest[..length], places, session, out);
                    }
                    at += length;
                }
                Ok(None) if rest.len() <= COMMAND_BYTES + FRAMING_BYTES => break false,
                Ok(None) => break self.refuse(&mut at, "ERR the command is too large"),
                Err(fault) => break self.refuse(&mut at, fault.text()),
            }
            if self.session.ends {
                // What follows a goodbye is not read.
                at = self.input.len();
            }
        };
        self.input.drain(..at);
        if self.input.is_empty() && self.input.capacity() > KEPT_BUFFER_BYTES {
            self.input = Vec::new();
        }
        more
    }

    /// Nothing after this can be understood.
    fn refuse(&mut self, at: &mut usize, why: &str) -> bool {
        self.space.meters.refused.inc();
        self.out.error(why);
        self.session.ends = true;
        *at = self.input.len();
        false
    }

    /// Ready when all has gone.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        if let Some(piece) = self.out.piece() {
            if piece.is_empty() {
                return Ok(Poll::Ready(()));
            }
            match self.stream.try_send_slice(piece) {
                Ok(taken) => self.out.sent(taken),
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
