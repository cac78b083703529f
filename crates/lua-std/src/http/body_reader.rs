//! A body that a script reads: of a request on the server, of a response on the client.
//!
//! Promises that no more is received than a reader requests, that the bytes of a timed-out read
//! stay for the next one, and that a compressed response is decompressed within limits. On the
//! server the body belongs to the connection's task, which is woken ([`BodyReader::pump`]); on the
//! client the reader polls it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use coding::{Coding, Decode, Decoder};
use message::{Body, Frame, Headers};
use mlua::{IntoLuaMulti, Lua, MultiValue, Result, Value};

use super::faults;
use super::waker_set::WakerSet;
use crate::limits::{HTTP_BODY_BYTES, HTTP_INFLATE_RATIO};
use lua_vm::errno;

/// How much a read requests.
#[derive(Clone, Copy)]
pub(super) enum ReadAmount {
    /// The next bytes, at least one.
    Some,
    Exactly(usize),
    All,
}

impl ReadAmount {
    /// Reads the optional count argument.
    pub(super) fn of(count: Option<usize>) -> Result<ReadAmount> {
        match count {
            None => Ok(ReadAmount::Some),
            Some(count) if count <= HTTP_BODY_BYTES => Ok(ReadAmount::Exactly(count)),
            Some(_) => Err(mlua::Error::runtime(format!(
                "bad argument #1 to 'read' (at most {HTTP_BODY_BYTES} bytes)"
            ))),
        }
    }

    fn bytes(self) -> usize {
        match self {
            ReadAmount::Some => 1,
            ReadAmount::Exactly(count) => count,
            ReadAmount::All => HTTP_BODY_BYTES + 1,
        }
    }
}

#[derive(Default)]
pub(super) struct BodyReader {
    body: RefCell<Body>,
    buffer: RefCell<BytesMut>,
    end: RefCell<Option<std::result::Result<(), String>>>,
    pub(super) trailers: RefCell<Option<Headers>>,
    decoder: RefCell<Option<Decoder>>,
    wanted: Cell<usize>,
    readers: WakerSet,
    /// The task that owns the body, if the reader does not.
    pub(super) pump: Option<WakerSet>,
}

impl BodyReader {
    pub(super) fn new(body: Body, pump: Option<WakerSet>) -> BodyReader {
        let input = BodyReader { pump, ..BodyReader::default() };
        input.put(body);
        input
    }

    pub(super) fn put(&self, body: Body) {
        if body.is_empty() {
            *self.end.borrow_mut() = Some(Ok(()));
        }
        *self.body.borrow_mut() = body;
    }

    /// Sets the content coding of the body.
    pub(super) fn decode(&self, coding: Coding) {
        let allowed = Decode { output_bytes: u64::MAX, ratio: HTTP_INFLATE_RATIO };
        *self.decoder.borrow_mut() = Decoder::new(coding, allowed).ok();
    }

    /// Ends the body; the first reason counts.
    pub(super) fn end(&self, end: std::result::Result<(), String>) {
        self.end.borrow_mut().get_or_insert(end);
        drop(self.body.take());
        self.readers.wake_all();
    }

    pub(super) fn is_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    fn has(&self, bytes: usize) -> bool {
        self.buffer.borrow().len() >= bytes || self.is_ended()
    }

    fn add(&self, data: &[u8]) {
        let mut buffer = self.buffer.borrow_mut();
        let mut decoder = self.decoder.borrow_mut();
        let Some(decoder) = &mut *decoder else {
            buffer.extend_from_slice(data);
            return;
        };
        let mut plain = Vec::new();
        let outcome = decoder.decode(data, &mut plain);
        buffer.extend_from_slice(&plain);
        if let Err(error) = outcome {
            self.end.borrow_mut().get_or_insert(Err(error.to_string()));
        }
    }

    fn finished(&self) -> std::result::Result<(), String> {
        let Some(mut decoder) = self.decoder.take() else { return Ok(()) };
        decoder.finish().map_err(|error| error.to_string())
    }

    /// Receives until the waiting readers have enough.
    pub(super) fn poll_fill(&self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.has(self.wanted.get()) {
            let frame = ready!(self.body.borrow_mut().poll_frame(cx));
            match frame {
                Some(Ok(Frame::Data(data))) => self.add(&data),
                Some(Ok(Frame::Trailers(fields))) => *self.trailers.borrow_mut() = Some(fields),
                Some(Ok(Frame::File(_))) => self.end(Err("a file, where bytes were due".into())),
                Some(Err(fault)) => self.end(Err(faults::reason(&fault))),
                None => {
                    let finished = self.finished();
                    self.end(finished);
                }
            }
        }
        self.wanted.set(0);
        self.readers.wake_all();
        Poll::Ready(())
    }

    /// The result of a read that need not wait.
    pub(super) fn take(&self, want: ReadAmount) -> Option<std::result::Result<BytesMut, String>> {
        let mut buffer = self.buffer.borrow_mut();
        let end = self.end.borrow();
        Some(match (want, &*end) {
            (ReadAmount::Exactly(count), _) if buffer.len() >= count => Ok(buffer.split_to(count)),
            (ReadAmount::Some, _) if !buffer.is_empty() => Ok(buffer.split()),
            (ReadAmount::All, _) if buffer.len() > HTTP_BODY_BYTES => {
                Err("the body is larger than readall allows".to_owned())
            }
            (_, None) => return None,
            (_, Some(Err(reason))) => Err(reason.clone()),
            (ReadAmount::All, Some(Ok(()))) => Ok(buffer.split()),
            (_, Some(Ok(()))) if !buffer.is_empty() => Ok(buffer.split()),
            (_, Some(Ok(()))) => Err(errno::EOF.to_owned()),
        })
    }

    /// Waits for a read, for `ms` at most.
    pub(super) async fn read(&self, want: ReadAmount, ms: Option<u64>) -> ReadResult {
        let filled = poll_fn(|cx| {
            if self.has(want.bytes()) {
                return Poll::Ready(());
            }
            self.wanted.set(self.wanted.get().max(want.bytes()));
            // Also of a body that is polled here: it may be ended by a close.
            self.readers.wait(cx);
            match &self.pump {
                None => self.poll_fill(cx),
                Some(pump) => {
                    pump.wake_all();
                    Poll::Pending
                }
            }
        });
        let in_time = match ms {
            Some(ms) => net::timer::within(Duration::from_millis(ms), filled).await.is_some(),
            None => {
                filled.await;
                true
            }
        };
        if !in_time {
            return ReadResult(Err(errno::of_number(libc::ETIMEDOUT)));
        }
        ReadResult(self.take(want).unwrap_or_else(|| Err(errno::CLOSED.to_owned())))
    }
}

/// The bytes, or `nil, reason`.
pub(super) struct ReadResult(pub(super) std::result::Result<BytesMut, String>);

impl IntoLuaMulti for ReadResult {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        match self.0 {
            Ok(data) => lua.create_string(&data)?.into_lua_multi(lua),
            Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
        }
    }
}
