//! The one that talks to a store for a whole process.
//!
//! Sends what has gathered since it last looked in one go, and hands out answers in the order in
//! which they were asked for. A connection that was silent for too long with an answer due is given
//! up, and so is one that says what nobody asked for.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use net::{Outgoing, Stream, Timer, timer};
use wire::resp::reply::Reader;

use crate::client::answer::{self, LIMITS};
use crate::client::link::{Call, Done, For, Link};
use crate::client::{Answer, Failure, Request};
use crate::limits::{CONNECT_AGAIN, CONNECT_WITHIN, DOWN_FOR, KEPT_BUFFER_BYTES};

/// Talks to the store whenever there is something to say, as long as this worker lives.
pub(super) async fn drive(link: Arc<Link>) {
    loop {
        poll_fn(|cx| if link.is_wanted(cx.waker()) { Poll::Ready(()) } else { Poll::Pending })
            .await;
        match connect(&link).await {
            Ok(stream) => {
                let mut talk = Talk::new(&link, stream);
                let failure = poll_fn(|cx| talk.poll(cx)).await;
                link.fail(talk.sent, &failure, false);
            }
            Err(failure) => {
                link.fail(VecDeque::new(), &failure, true);
                timer::sleep(DOWN_FOR).await;
                link.up();
            }
        }
    }
}

/// Connects, again and again for a while: the store may be about to begin.
async fn connect(link: &Link) -> Result<Stream, Failure> {
    let last = RefCell::new(io::Error::from(io::ErrorKind::TimedOut));
    let connecting = async {
        loop {
            match Stream::connect_unix(&link.path).await {
                Ok(stream) => return stream,
                Err(error) => *last.borrow_mut() = error,
            }
            timer::sleep(CONNECT_AGAIN).await;
        }
    };
    let connected = timer::within(CONNECT_WITHIN, connecting).await;
    connected.ok_or_else(|| Failure::Unreachable(last.into_inner().to_string()))
}

struct Talk<'a> {
    link: &'a Link,
    stream: Stream,
    /// Calls whose answers are due, in order.
    sent: VecDeque<Call>,
    outgoing: Outgoing,
    input: Vec<u8>,
    reader: Reader,
    due: Timer,
}

impl<'a> Talk<'a> {
    fn new(link: &'a Link, stream: Stream) -> Talk<'a> {
        let mut talk = Talk {
            link,
            stream,
            sent: VecDeque::new(),
            outgoing: Outgoing::default(),
            input: Vec::new(),
            reader: Reader::default(),
            due: Timer::new(),
        };
        // Kinds of values, and messages between answers.
        let hello = Request::of(&[b"HELLO", b"3"]).into_bytes().into();
        let for_whom = For::Caller(Done::new(drop));
        talk.sent.push_back(Call { bytes: hello, missing: 1, answers: Vec::new(), for_whom });
        talk.outgoing.push(talk.sent[0].bytes.clone());
        talk.due.set(link.answer_within);
        talk
    }

    /// Ready with why this connection cannot go on.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        loop {
            self.take(cx);
            while !self.outgoing.is_empty() {
                match self.stream.poll_send(cx, &mut self.outgoing) {
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(Failure::Lost),
                    Poll::Pending => break,
                }
            }
            match self.stream.poll_receive(cx) {
                Poll::Ready(Ok(chunk)) if !chunk.is_empty() => self.input.extend_from_slice(&chunk),
                Poll::Ready(_) => return Poll::Ready(Failure::Lost),
                Poll::Pending => break,
            }
            if let Err(failure) = self.read() {
                return Poll::Ready(failure);
            }
            // Something has come: whatever is due next has all its time.
            self.due.set(self.link.answer_within);
        }
        if self.sent.is_empty() {
            self.due.clear();
            return Poll::Pending;
        }
        self.due.poll(cx).map(|()| Failure::Late)
    }

    /// Takes what others have left.
    fn take(&mut self, cx: &Context<'_>) {
        let (before, idle) = (self.sent.len(), self.sent.is_empty());
        self.link.take(cx.waker(), &mut self.sent);
        for call in self.sent.iter().skip(before) {
            self.outgoing.push(call.bytes.clone());
        }
        if idle && !self.sent.is_empty() {
            self.due.set(self.link.answer_within);
        }
    }

    fn read(&mut self) -> Result<(), Failure> {
        let mut at = 0;
        loop {
            let rest = &self.input[at..];
            let read = self.reader.read(rest, &LIMITS);
            let Some(length) = read.map_err(|fault| Failure::Malformed(fault.text()))? else {
                break;
            };
            let answer = answer::answer(&rest[..length], &self.reader)?;
            at += length;
            match answer {
                Answer::Push(parts) => self.out_of_turn(parts)?,
                answer => self.in_turn(answer)?,
            }
        }
        self.input.drain(..at);
        if self.input.is_empty() && self.input.capacity() > KEPT_BUFFER_BYTES {
            self.input = Vec::new();
        }
        Ok(())
    }

    /// An answer to the call that waits for the longest time.
    fn in_turn(&mut self, answer: Answer) -> Result<(), Failure> {
        let first = self.sent.front_mut().ok_or(Failure::Malformed("an answer to nothing"))?;
        if matches!(first.for_whom, For::Channel(_)) && !matches!(answer, Answer::Push(_)) {
            return Err(Failure::Malformed("a channel was refused"));
        }
        first.answers.push(answer);
        first.missing = first.missing.saturating_sub(1);
        if first.missing == 0
            && let Some(call) = self.sent.pop_front()
        {
            self.link.ended(call);
        }
        Ok(())
    }

    /// A message, or the confirmation of a change of what is listened to.
    fn out_of_turn(&mut self, parts: Vec<Answer>) -> Result<(), Failure> {
        let unknown = Failure::Malformed("a message of an unknown kind");
        let (what, payload) = match &parts[..] {
            [Answer::Bytes(what), Answer::Bytes(channel), payload] => (what, (channel, payload)),
            _ => return Err(unknown),
        };
        match (&what[..], payload) {
            (b"message", (channel, Answer::Text(text))) => {
                self.link.deliver(channel, text.clone(), true);
            }
            (b"message", (channel, Answer::Bytes(bytes))) => {
                self.link.deliver(channel, bytes.clone(), false);
            }
            (b"subscribe" | b"unsubscribe", (channel, Answer::Integer(_))) => {
                let first = self.sent.front().map(|call| &call.for_whom);
                if !matches!(first, Some(For::Channel(asked)) if asked == channel) {
                    return Err(Failure::Malformed("a channel that was not asked for"));
                }
                return self.in_turn(Answer::Push(Vec::new()));
            }
            _ => return Err(unknown),
        }
        Ok(())
    }
}
