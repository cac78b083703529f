//! One connection from a gateway's worker to an application process, and its streams.
//!
//! Takes exchanges at any time and sends the output of a turn together. Ends when the process is
//! gone or has sent malformed frames, which fails the exchanges in flight, or when it is draining
//! and nothing is in flight.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use message::{Fault, FaultKind};
use net::{FileRange, Stream};
use offload::Arrival;
use wire::frames::{self, Data, Frame, Kind, Malformed};

use super::stream_payload::StreamPayload;
use crate::limits::FRAMES_WINDOW;
use crate::mux::{self, CloseCause, Endpoint, Mux, PROGRAM, StreamStep};

/// A connection to an application process.
pub(super) struct RemoteConnection {
    state: RefCell<RemoteConnectionState>,
    /// Called when the connection opens, starts to drain, or has room again.
    changed: Rc<dyn Fn()>,
}

struct RemoteConnectionState {
    mux: Mux<StreamPayload>,
    /// The initial credit that the process gives each stream; none before its greeting.
    window: Option<u32>,
    /// The connection is draining, at the request of either end.
    draining: bool,
    /// Wakes the connection's task.
    waker: Option<Waker>,
    changed: Cell<bool>,
    /// An exchange was rejected because all streams are in use.
    full: bool,
}

impl RemoteConnection {
    pub(super) fn new(changed: Rc<dyn Fn()>) -> Rc<RemoteConnection> {
        let mut mux = Mux::new();
        frames::hello(mux.outbox.frames(), FRAMES_WINDOW, PROGRAM);
        let state = RemoteConnectionState {
            mux,
            window: None,
            draining: false,
            waker: None,
            changed: Cell::new(false),
            full: false,
        };
        Rc::new(RemoteConnection { state: RefCell::new(state), changed })
    }

    /// True if it takes exchanges.
    pub(super) fn is_open(&self) -> bool {
        let state = self.state.borrow();
        state.window.is_some() && !state.draining
    }

    /// True if it takes no more exchanges.
    pub(super) fn is_leaving(&self) -> bool {
        self.state.borrow().draining
    }

    pub(super) fn in_flight(&self) -> usize {
        self.state.borrow().mux.streams.len()
    }

    /// Sends an exchange; returns it if there is no room or the connection is not open.
    pub(super) fn send(&self, arrival: Arrival) -> Result<(), Arrival> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let Some(window) = state.window.filter(|_| !state.draining) else { return Err(arrival) };
        let Some((number, waker)) = state.mux.streams.number() else {
            state.full = true;
            return Err(arrival);
        };
        state.begin(arrival, number, window, &waker);
        if let Some(waker) = &state.waker {
            waker.wake_by_ref();
        }
        Ok(())
    }

    /// Sends nothing new; the connection ends when nothing is in flight.
    pub(super) fn retire(&self) {
        let mut state = self.state.borrow_mut();
        state.draining = true;
        if let Some(waker) = &state.waker {
            waker.wake_by_ref();
        }
    }

    /// Drives the connection until it ends; returns the reason and the number of exchanges that
    /// failed.
    pub(super) async fn run(&self, stream: Stream) -> (CloseCause, usize) {
        let ended = poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                state.waker = Some(cx.waker().clone());
            }
            let ended = mux::poll(&stream, &mut *state, cx);
            let changed = state.changed.take();
            drop(state);
            if changed {
                (self.changed)();
            }
            match ended {
                Poll::Ready(ended) => Poll::Ready(ended),
                Poll::Pending => Poll::Pending,
            }
        });
        let ended = ended.await;
        let mut state = self.state.borrow_mut();
        state.draining = true;
        let streams = state.mux.streams.drain();
        drop(state);
        let lost = streams.len();
        for mut stream_payload in streams {
            stream_payload.fail(broken(&ended));
        }
        (ended, lost)
    }
}

/// The fault of exchanges on a broken connection.
fn broken(ended: &CloseCause) -> Fault {
    let detail = match ended {
        CloseCause::Malformed(malformed) => malformed.text(),
        CloseCause::Done | CloseCause::Closed | CloseCause::Failed(_) => {
            "the process of the application has ended"
        }
    };
    Fault::new(FaultKind::ConnectionTerminated, detail)
}

impl RemoteConnectionState {
    fn begin(&mut self, arrival: Arrival, number: u32, window: u32, waker: &Waker) {
        let outbox = &mut self.mux.outbox;
        let Some(stream_payload) = StreamPayload::begin(arrival, number, window, waker, outbox)
        else {
            return;
        };
        // The index is free: its number was just allocated.
        if self.mux.streams.open(number, stream_payload).is_ok() {
            mux::step(self, number);
        }
    }

    fn greeted(&mut self, window: u32, program: &[u8]) -> Result<(), Malformed> {
        if program != PROGRAM.as_bytes() {
            return Err(Malformed::Version);
        }
        self.window = Some(window);
        self.changed.set(true);
        Ok(())
    }

    /// The process is draining: confirms that nothing new will be sent.
    fn leave(&mut self) {
        if !self.draining {
            self.draining = true;
            self.changed.set(true);
        }
        frames::bare(self.mux.outbox.frames(), Kind::GoAway, 0);
    }

    fn close(&mut self, number: u32) {
        drop(self.mux.streams.close(number));
        if std::mem::take(&mut self.full) {
            self.changed.set(true);
        }
    }

    /// Receives a part of a file of a response. Only regular files are accepted: to read another
    /// one could block the worker.
    fn file(&mut self, number: u32, offset: u64, length: u64) -> Result<(), Malformed> {
        let file = self.mux.take_file()?.and_then(|file| match file.metadata()?.is_file() {
            true => Ok(Arc::new(file)),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        });
        if file.is_err() {
            frames::bare(self.mux.outbox.frames(), Kind::Cancel, number);
        }
        self.with(number, |stream_payload| {
            let exchange = stream_payload.exchange()?;
            match file {
                Ok(file) => exchange.file(FileRange { file, offset, length }),
                Err(error) => {
                    let detail = format!("a file of the application cannot be sent: {error}");
                    exchange.fail(Fault::internal(detail));
                    Ok(StreamStep::Done)
                }
            }
        })
    }

    /// Passes a frame to its stream; frames for a stream that has ended are ignored.
    fn with(
        &mut self,
        number: u32,
        act: impl FnOnce(&mut StreamPayload) -> Result<StreamStep, Malformed>,
    ) -> Result<(), Malformed> {
        let Some((stream_payload, _)) = self.mux.streams.get(number) else { return Ok(()) };
        match act(stream_payload)? {
            StreamStep::Pending => {}
            StreamStep::Again => mux::step(self, number),
            StreamStep::Done => self.close(number),
        }
        Ok(())
    }
}

impl Endpoint for RemoteConnectionState {
    type Stream = StreamPayload;

    const TAKES_FILES: bool = true;

    fn mux(&mut self) -> &mut Mux<StreamPayload> {
        &mut self.mux
    }

    fn frame(&mut self, frame: Frame<'_>, chunk: Option<&Bytes>) -> Result<(), Malformed> {
        match frame {
            Frame::Hello { window, program } => self.greeted(window, program),
            Frame::Response { stream, end, head, body } => self.with(stream, |stream_payload| {
                stream_payload.answering()?.answered(head, body, end)
            }),
            Frame::Data(Data { stream, bytes, cost, end }) => self.with(stream, |stream_payload| {
                stream_payload.exchange()?.data(mux::kept(bytes, chunk), cost, end)
            }),
            Frame::File { stream, offset, length } => self.file(stream, offset, length),
            Frame::Plain { kind, stream, payload } => {
                self.with(stream, |stream_payload| stream_payload.told(kind, payload))
            }
            Frame::Window { stream, credit } => {
                self.with(stream, |stream_payload| stream_payload.granted(credit))
            }
            Frame::Stop { stream } => self.with(stream, |stream_payload| {
                stream_payload.exchange()?.stopped();
                Ok(StreamStep::Pending)
            }),
            Frame::Message { stream, binary, end, bytes } => self.with(stream, |stream_payload| {
                stream_payload.ws_session()?.message(binary, end, bytes)
            }),
            Frame::Close { stream, code, reason } => self.with(stream, |stream_payload| {
                Ok(stream_payload.ws_session()?.closed(code, reason))
            }),
            Frame::GoAway => {
                self.leave();
                Ok(())
            }
            Frame::Ping(number) => {
                frames::ping(self.mux.outbox.frames(), Kind::Pong, number);
                Ok(())
            }
            Frame::Pong(_) => Ok(()),
            _ => Err(Malformed::Kind),
        }
    }

    fn step(&mut self, number: u32) -> StreamStep {
        let Mux { streams, outbox, .. } = &mut self.mux;
        let Some((stream_payload, waker)) = streams.get(number) else { return StreamStep::Done };
        let step = stream_payload.step(number, outbox, waker);
        if step == StreamStep::Done {
            self.close(number);
        }
        step
    }

    fn is_done(&mut self) -> bool {
        self.draining && self.mux.streams.is_empty()
    }
}
