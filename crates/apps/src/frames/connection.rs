//! One connection from a gateway's worker, in the application process.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Waker;

use bytes::Bytes;
use net::Stream;
use offload::{Arrival, Head};
use wire::frames::{self, Data, Frame, Kind, Malformed};

use super::Service;
use super::exchange::Exchange;
use super::feed::ExtraFrames;
use super::ws_session::{SessionStep, WsSession};
use crate::limits::FRAMES_WINDOW;
use crate::mux::{self, CloseCause, Endpoint, Mux, PROGRAM, StreamStep, write_fault};

pub(super) struct Connection(RefCell<FrameConnectionState>);

struct FrameConnectionState {
    mux: Mux<StreamPayload>,
    service: Rc<Service>,
    extra: ExtraFrames,
    /// The initial credit that the gateway gives each stream; none before its greeting.
    window: Option<u32>,
    /// This process has sent GOAWAY...
    draining: bool,
    /// ... and so has the gateway.
    released: bool,
    /// Wakes the connection's task.
    waker: Option<Waker>,
}

/// The payload of a stream. Exchanges are the usual case: boxing them would cost more than the
/// space that a session leaves unused.
#[allow(clippy::large_enum_variant)]
enum StreamPayload {
    Exchange(Exchange),
    WsSession(WsSession),
}

impl StreamPayload {
    fn exchange(&mut self) -> Result<&mut Exchange, Malformed> {
        match self {
            StreamPayload::Exchange(exchange) => Ok(exchange),
            StreamPayload::WsSession(_) => Err(Malformed::Stream),
        }
    }

    fn ws_session(&mut self) -> Result<&mut WsSession, Malformed> {
        match self {
            StreamPayload::WsSession(ws_session) => Ok(ws_session),
            StreamPayload::Exchange(_) => Err(Malformed::Stream),
        }
    }

    fn granted(&mut self, credit: u32) -> Result<StreamStep, Malformed> {
        match self {
            StreamPayload::Exchange(exchange) => exchange.granted(credit),
            StreamPayload::WsSession(ws_session) => ws_session.granted(credit),
        }
    }
}

impl Connection {
    pub(super) fn new(service: Rc<Service>) -> Rc<Connection> {
        let mut mux = Mux::new();
        frames::hello(mux.outbox.frames(), FRAMES_WINDOW, PROGRAM);
        Rc::new(Connection(RefCell::new(FrameConnectionState {
            mux,
            service,
            extra: ExtraFrames::default(),
            window: None,
            draining: false,
            released: false,
            waker: None,
        })))
    }

    pub(super) fn in_flight(&self) -> usize {
        self.0.borrow().mux.streams.len()
    }

    /// Tells the gateway to send nothing new; the connection ends when it has confirmed and nothing
    /// is in flight.
    pub(super) fn leave(&self) {
        let mut state = self.0.borrow_mut();
        if std::mem::replace(&mut state.draining, true) {
            return;
        }
        frames::bare(state.mux.outbox.frames(), Kind::GoAway, 0);
        state.end_sessions();
        if let Some(waker) = &state.waker {
            waker.wake_by_ref();
        }
    }

    /// Drives the connection until it ends, then cancels its exchanges.
    pub(super) async fn run(&self, stream: Stream) -> CloseCause {
        let ended = poll_fn(|cx| {
            let state = &mut *self.0.borrow_mut();
            if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                state.waker = Some(cx.waker().clone());
            }
            mux::poll(&stream, state, cx)
        });
        let ended = ended.await;
        let streams = self.0.borrow_mut().mux.streams.drain();
        drop(streams);
        ended
    }
}

impl FrameConnectionState {
    fn begin(&mut self, number: u32, head: &[u8], body: &[u8], end: bool) -> Result<(), Malformed> {
        let (window, head) = self.head(head)?;
        let limits = self.service.limits;
        let (handed, exchange) =
            Exchange::begin(number, head, body, end, window, limits, &self.extra);
        let arrival = Arrival::Exchange(Box::new(handed));
        self.open(number, StreamPayload::Exchange(exchange), arrival)
    }

    fn begin_session(&mut self, number: u32, head: &[u8]) -> Result<(), Malformed> {
        let (window, head) = self.head(head)?;
        let (handed, mut ws_session) = WsSession::begin(head, window, self.service.limits);
        if self.draining {
            ws_session.leave();
        }
        self.open(number, StreamPayload::WsSession(ws_session), Arrival::Session(Box::new(handed)))
    }

    /// Exchanges are finished; sessions could last for ever.
    fn end_sessions(&mut self) {
        for number in self.mux.streams.numbers() {
            if let Some((StreamPayload::WsSession(ws_session), _)) = self.mux.streams.get(number) {
                ws_session.leave();
                mux::step(self, number);
            }
        }
    }

    fn head(&self, head: &[u8]) -> Result<(u32, Head), Malformed> {
        let window = self.window.ok_or(Malformed::Hello)?;
        Ok((window, Head::decode(head).map_err(|_| Malformed::Payload)?))
    }

    fn open(
        &mut self,
        number: u32,
        stream_payload: StreamPayload,
        arrival: Arrival,
    ) -> Result<(), Malformed> {
        self.mux.streams.open(number, stream_payload)?;
        if let Err(refused) = (self.service.sink)(arrival) {
            write_fault(self.mux.outbox.frames(), number, &refused.fault());
            self.close(number);
            return Ok(());
        }
        mux::step(self, number);
        Ok(())
    }

    fn close(&mut self, number: u32) {
        drop(self.mux.streams.close(number));
        // Frames queued by the end of this stream are obsolete; those of others were already moved.
        self.extra.borrow_mut().clear();
    }

    /// Passes a frame to its stream; frames for a stream that has ended are ignored.
    fn with(
        &mut self,
        number: u32,
        act: impl FnOnce(&mut StreamPayload) -> Result<StreamStep, Malformed>,
    ) -> Result<(), Malformed> {
        let Some((stream_payload, _)) = self.mux.streams.get(number) else { return Ok(()) };
        if act(stream_payload)? == StreamStep::Again {
            mux::step(self, number);
        }
        Ok(())
    }
}

impl Endpoint for FrameConnectionState {
    type Stream = StreamPayload;

    fn mux(&mut self) -> &mut Mux<StreamPayload> {
        &mut self.mux
    }

    fn frame(&mut self, frame: Frame<'_>, chunk: Option<&Bytes>) -> Result<(), Malformed> {
        match frame {
            Frame::Hello { program, .. } if program != PROGRAM.as_bytes() => {
                return Err(Malformed::Version);
            }
            Frame::Hello { window, .. } => self.window = Some(window),
            Frame::Request { stream, end, head, body } => {
                return self.begin(stream, head, body, end);
            }
            Frame::Data(Data { stream, bytes, cost, end }) => {
                return self.with(stream, |stream_payload| {
                    stream_payload.exchange()?.data(mux::kept(bytes, chunk), cost, end)
                });
            }
            Frame::Plain { kind: Kind::Trailers, stream, payload } => {
                return self
                    .with(stream, |stream_payload| stream_payload.exchange()?.trailers(payload));
            }
            Frame::Plain { kind: Kind::Fault, stream, payload } => {
                return self.with(stream, |stream_payload| {
                    stream_payload.exchange()?.body_failed(payload)
                });
            }
            Frame::Plain { kind: Kind::Session, stream, payload } => {
                return self.begin_session(stream, payload);
            }
            Frame::Window { stream, credit } => {
                return self.with(stream, |stream_payload| stream_payload.granted(credit));
            }
            Frame::Message { stream, binary, end, bytes } => {
                return self.with(stream, |stream_payload| {
                    stream_payload.ws_session()?.message(binary, end, bytes)
                });
            }
            Frame::Close { stream, code, reason } => {
                self.with(stream, |stream_payload| {
                    stream_payload.ws_session()?.closed(code, reason);
                    Ok(StreamStep::Pending)
                })?;
                self.close(stream);
            }
            Frame::Cancel { stream } => self.close(stream),
            Frame::GoAway => self.released = true,
            Frame::Ping(number) => {
                frames::ping(self.mux.outbox.frames(), Kind::Pong, number);
            }
            Frame::Pong(_) => {}
            _ => return Err(Malformed::Kind),
        }
        Ok(())
    }

    fn step(&mut self, number: u32) -> StreamStep {
        let Mux { streams, outbox, .. } = &mut self.mux;
        let Some((stream_payload, waker)) = streams.get(number) else { return StreamStep::Done };
        let step = match stream_payload {
            StreamPayload::Exchange(exchange) => exchange.step(number, outbox, waker),
            StreamPayload::WsSession(ws_session) => match ws_session.step(number, outbox, waker) {
                SessionStep::Continues(step) => step,
                SessionStep::Denied(outcome) => {
                    // The rest is an ordinary response.
                    let credit = ws_session.credit();
                    let mut exchange = Exchange::answered(credit, &self.extra);
                    let step = exchange.answer_with(outcome, number, outbox, waker);
                    *stream_payload = StreamPayload::Exchange(exchange);
                    step
                }
            },
        };
        if step == StreamStep::Done {
            self.close(number);
        }
        step
    }

    fn is_done(&mut self) -> bool {
        self.draining && self.released && self.mux.streams.is_empty()
    }
}
