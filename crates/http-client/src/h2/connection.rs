//! One connection of HTTP/2 to a server, and the task that moves its bytes.
//!
//! Exchanges change the protocol's state and wake the task, which sends what all of them have to
//! send in one call. The task ends with the connection, and fails the exchanges that it had.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use message::Fault;
use message::http2::{self, Chunk, SendQueue};
use net::clock::{self, Moment};
use net::{Outgoing, Stream, Timer};
use telemetry::{CachePadded, Gauge, LimitHit, WorkerMetrics};
use wire::h1::HeadLimits;
use wire::h2::{Config, Connection, ErrorCode, Event, StreamKey, Unavailable, Violation};

use super::http1_demand::Http1Demand;
use super::stream::Http2Stream;
use crate::faults;
use crate::limits::{
    HTTP2_STREAM_WINDOW, HTTP2_STREAMS, HTTP2_TURNS, HTTP2_WRITE, PING_AFTER, PING_WITHIN,
};
use crate::parking::Parking;

pub(crate) struct Http2Connection {
    pub(super) protocol: RefCell<Connection<Chunk>>,
    /// By the slot of their key.
    streams: RefCell<Vec<Rc<Http2Stream>>>,
    /// `None` once the connection was closed.
    socket: RefCell<Option<Stream>>,
    driver: Cell<Option<Waker>>,
    /// Tasks that wait for the settings of the server, or for room in the output.
    waiting: RefCell<Vec<Waker>>,
    /// `:scheme` is https.
    pub(super) is_secure: bool,
    retires: Moment,
    /// Longest time without a stream; `None` ends the connection with its last one.
    idle: Option<Duration>,
    /// Since when there is no stream, or never.
    idle_since: Cell<Moment>,
    /// Requests that it has carried.
    requests: Cell<u32>,
    has_ended: Cell<bool>,
    /// Time of the last data, and the deadline of the next after a PING.
    heard: Cell<Moment>,
    heard_until: Cell<Moment>,
    /// A PING was sent since the last frame that was not its acknowledgement: some servers end
    /// connections that only send PING.
    is_pinged: Cell<bool>,
    /// Of its pool, if the server may be sent HTTP/1.1.
    http1_demand: Option<Rc<Http1Demand>>,
}

/// Counts a connection as long as it is open.
pub(crate) struct ConnectionCount {
    gauge: Arc<CachePadded<Gauge>>,
    parking: Arc<Parking>,
    worker: usize,
}

impl ConnectionCount {
    pub(crate) fn new(
        gauge: &Arc<CachePadded<Gauge>>,
        parking: &Arc<Parking>,
        worker: usize,
    ) -> ConnectionCount {
        gauge.add(1);
        parking.shared[worker].add(1);
        ConnectionCount { gauge: gauge.clone(), parking: parking.clone(), worker }
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.gauge.add(-1);
        self.parking.shared[self.worker].add(-1);
    }
}

impl Http2Connection {
    /// Drives a new connection in a task of its own, until it ends.
    pub(crate) fn start(
        stream: Stream,
        head: HeadLimits,
        retires: Moment,
        idle: Option<Duration>,
        http1_demand: Option<Rc<Http1Demand>>,
        count: ConnectionCount,
        metrics: Arc<WorkerMetrics>,
    ) -> Rc<Http2Connection> {
        let config = Config {
            head,
            stream_window: HTTP2_STREAM_WINDOW,
            // A client that does not read its response blocks no other.
            connection_window: HTTP2_STREAM_WINDOW * HTTP2_STREAMS as u32,
            ..Config::default()
        };
        let now = clock::now();
        let connection = Rc::new(Http2Connection {
            protocol: RefCell::new(Connection::client(config)),
            streams: RefCell::default(),
            is_secure: stream.tls().is_some(),
            socket: RefCell::new(Some(stream)),
            driver: Cell::default(),
            waiting: RefCell::default(),
            retires,
            idle,
            idle_since: Cell::new(now),
            requests: Cell::new(0),
            has_ended: Cell::new(false),
            heard: Cell::new(now),
            heard_until: Cell::new(Moment::NEVER),
            is_pinged: Cell::new(false),
            http1_demand,
        });
        let driven = connection.clone();
        net::task::spawn_local(async move {
            let _count = count;
            let mut driver = Driver {
                outgoing: Outgoing::default(),
                timer: Timer::new(),
                refunded: clock::now(),
                metrics,
            };
            let fault = poll_fn(|cx| driver.poll(&driven, cx)).await;
            driven.end(&fault);
        });
        connection
    }

    /// True if no further request may be sent on it, now or later.
    pub(crate) fn is_over(&self, now: Moment, max_requests: u32) -> bool {
        self.has_ended.get()
            || now >= self.retires
            || self.requests.get() >= max_requests
            || self.protocol.borrow().can_open() == Err(Unavailable::Ending)
    }

    /// True if the server takes one more request now.
    pub(crate) fn has_room(&self) -> bool {
        let protocol = self.protocol.borrow();
        !self.has_ended.get() && protocol.streams() < HTTP2_STREAMS && protocol.can_open().is_ok()
    }

    pub(crate) fn is_reused(&self) -> bool {
        self.requests.get() > 0
    }

    /// Whether the server accepts extended CONNECT; `None` before its settings have arrived.
    pub(crate) fn has_extended_connect(&self) -> Option<bool> {
        self.protocol.borrow().peer_has_extended_connect()
    }

    /// The same, once the settings have arrived.
    pub(crate) async fn supports_extended_connect(&self) -> bool {
        poll_fn(|cx| match self.has_extended_connect() {
            Some(has_it) => Poll::Ready(has_it),
            None if self.has_ended.get() => Poll::Ready(false),
            None => {
                self.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// Ready while the output is short. Short chunks are in it as soon as the windows allow, and a
    /// server may open its windows wide and not read.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.protocol.borrow().wants_input() {
            return Poll::Ready(());
        }
        self.waiting.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }

    /// Since when it has no stream.
    pub(crate) fn idle_since(&self) -> Option<Moment> {
        Some(self.idle_since.get()).filter(|since| *since != Moment::NEVER)
    }

    /// How long nothing has arrived on it.
    pub(crate) fn silent_for(&self) -> Duration {
        clock::now().since(self.heard.get())
    }

    /// Takes no more requests, and ends with its last stream.
    pub(crate) fn close_when_unused(&self) {
        self.protocol.borrow_mut().close_to_new_streams();
        self.wake();
    }

    /// Closes a connection without streams at once.
    pub(crate) fn close(&self) {
        self.has_ended.set(true);
        self.socket.take();
        self.wake();
    }

    /// Takes the stream of a new request, mostly in the memory of one that has ended.
    pub(super) fn open(&self, key: StreamKey) -> Rc<Http2Stream> {
        self.requests.set(self.requests.get() + 1);
        self.idle_since.set(Moment::NEVER);
        self.check_silence();
        let mut streams = self.streams.borrow_mut();
        let slot = key.slot as usize;
        match streams.get_mut(slot) {
            Some(stream) if Rc::strong_count(stream) == 1 => stream.restart(key),
            Some(stream) => *stream = Http2Stream::new(key),
            None => streams.resize_with(slot + 1, || Http2Stream::new(key)),
        }
        streams[slot].clone()
    }

    /// A request follows a long silence: a PING tells soon whether the server is still there.
    fn check_silence(&self) {
        let now = clock::now();
        if now.since(self.heard.get()) >= PING_AFTER && !self.is_pinged.replace(true) {
            self.protocol.borrow_mut().send_ping();
            self.heard_until.set(now.after(PING_WITHIN));
        }
    }

    /// A request has waited for its response in vain. If nothing else came either, the connection
    /// may be dead, and takes no more requests.
    pub(super) fn give_up_if_silent(&self, since: Moment) {
        if self.heard.get() < since {
            self.close_when_unused();
        }
    }

    /// Ends the stream of an exchange, whatever is missing of its messages.
    pub(super) fn end_stream(&self, stream: &Http2Stream) {
        let key = stream.key();
        stream.received.take();
        let mut protocol = self.protocol.borrow_mut();
        protocol.reset(key, ErrorCode::CANCEL);
        if protocol.streams() == 0 {
            self.idle_since.set(clock::now());
        }
        drop(protocol);
        self.wake();
    }

    /// Wakes the task: there may be something to send, or nothing left to wait for.
    pub(super) fn wake(&self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    fn stream(&self, key: StreamKey) -> Option<Rc<Http2Stream>> {
        let streams = self.streams.borrow();
        streams.get(key.slot as usize).filter(|stream| stream.key() == key).cloned()
    }

    /// Fails the exchanges of a connection that has ended.
    fn end(&self, fault: &Fault) {
        self.has_ended.set(true);
        self.streams.take().iter().for_each(|stream| stream.fail(fault));
        self.wake_waiting();
        if let Some(socket) = self.socket.take() {
            socket.close_notify();
        }
    }

    fn wake_waiting(&self) {
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    fn handle(&self, event: Event) {
        if let (Event::Reset { code, .. } | Event::GoAway { code }, Some(demand)) =
            (&event, &self.http1_demand)
            && *code == ErrorCode::HTTP_1_1_REQUIRED
        {
            demand.note();
        }
        let key = match &event {
            Event::Response { stream, .. }
            | Event::Data { stream, .. }
            | Event::Trailers { stream }
            | Event::Malformed { stream: Some(stream), .. }
            | Event::Reset { stream, .. } => *stream,
            _ => return,
        };
        self.is_pinged.set(false);
        if let Some(stream) = self.stream(key) {
            stream.note(event, self.protocol.borrow().fields());
        }
    }
}

/// What the task of a connection has for itself.
struct Driver {
    outgoing: Outgoing,
    timer: Timer,
    /// When the protocol was last told that time has passed.
    refunded: Moment,
    metrics: Arc<WorkerMetrics>,
}

impl Driver {
    /// Receives and sends until neither is possible; ready when the connection has ended.
    fn poll(&mut self, connection: &Http2Connection, cx: &mut Context<'_>) -> Poll<Fault> {
        connection.driver.set(Some(cx.waker().clone()));
        let socket = connection.socket.borrow();
        let Some(socket) = &*socket else {
            return Poll::Ready(faults::no_answer(None, false));
        };
        self.refund_budgets(connection);
        for _ in 0..HTTP2_TURNS {
            let received = match self.receive(connection, socket, cx) {
                Ok(received) => received,
                Err(fault) => return Poll::Ready(fault),
            };
            let sent = match self.send(connection, socket, cx) {
                Ok(sent) => sent,
                Err(error) => return Poll::Ready(faults::no_answer(Some(&error), true)),
            };
            if !received && !sent {
                return self.wait(connection, cx);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes what has arrived and passes it to the streams; true if there may be more.
    fn receive(
        &mut self,
        connection: &Http2Connection,
        socket: &Stream,
        cx: &mut Context<'_>,
    ) -> Result<bool, Fault> {
        if !connection.protocol.borrow().wants_input() {
            return Ok(false);
        }
        let chunk = match socket.poll_receive(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok(chunk)) if !chunk.is_empty() => chunk,
            Poll::Ready(Ok(_)) => return Err(faults::no_answer(None, true)),
            Poll::Ready(Err(error)) => return Err(faults::no_answer(Some(&error), true)),
        };
        connection.heard.set(clock::now());
        connection.heard_until.set(Moment::NEVER);
        connection.protocol.borrow_mut().receive(chunk);
        loop {
            let event = connection.protocol.borrow_mut().poll_event();
            match event {
                Ok(Some(event)) => connection.handle(event),
                Ok(None) => break,
                Err(violation) => return Err(self.report(connection, socket, violation)),
            }
        }
        connection.wake_waiting();
        Ok(true)
    }

    /// Tells the server why the connection ends, as far as it takes that now.
    fn report(&mut self, connection: &Http2Connection, socket: &Stream, why: Violation) -> Fault {
        connection
            .protocol
            .borrow_mut()
            .write(&mut SendQueue(&mut self.outgoing, http2::take), HTTP2_WRITE);
        if why.code() == ErrorCode::ENHANCE_YOUR_CALM {
            self.metrics.hit(LimitHit::UpstreamFlood);
        }
        // The connection is closed whether or not this is sent.
        let _ = socket.try_send(&mut self.outgoing);
        faults::protocol(why.text())
    }

    /// Sends what can be sent; true if the socket took something.
    fn send(
        &mut self,
        connection: &Http2Connection,
        socket: &Stream,
        cx: &mut Context<'_>,
    ) -> std::io::Result<bool> {
        let mut protocol = connection.protocol.borrow_mut();
        if self.outgoing.is_empty() && protocol.wants_output() {
            protocol.write(&mut SendQueue(&mut self.outgoing, http2::take), HTTP2_WRITE);
            connection.wake_waiting();
        }
        while let Some(key) = protocol.take_drained() {
            if let Some(stream) = connection.stream(key) {
                stream.wake();
            }
        }
        if self.outgoing.is_empty() {
            return Ok(false);
        }
        match socket.poll_send(cx, &mut self.outgoing) {
            Poll::Ready(sent) => sent.map(|sent| sent > 0),
            Poll::Pending => Ok(false),
        }
    }

    /// Waits for bytes, for exchanges, or for the end: of a connection that is not used, or that no
    /// longer reacts.
    fn wait(&mut self, connection: &Http2Connection, cx: &mut Context<'_>) -> Poll<Fault> {
        let mut protocol = connection.protocol.borrow_mut();
        if protocol.streams() > 0 {
            self.timer.set_at(connection.heard_until.get());
            return self.timer.poll(cx).map(|()| faults::no_acknowledgement());
        }
        let is_spent = connection.idle.is_none() && connection.is_reused();
        if (protocol.is_finished() || is_spent) && self.outgoing.is_empty() {
            return Poll::Ready(faults::no_answer(None, false));
        }
        if connection.idle_since.get() == Moment::NEVER {
            connection.idle_since.set(clock::now());
        }
        let deadline = match connection.idle {
            Some(idle) => connection.idle_since.get().after(idle),
            None => connection.retires,
        };
        if self.timer.deadline() != deadline {
            protocol.release_memory();
        }
        self.timer.set_at(deadline);
        self.timer.poll(cx).map(|()| faults::no_answer(None, false))
    }

    /// Refunds the budgets of the protocol.
    fn refund_budgets(&mut self, connection: &Http2Connection) {
        let now = clock::now();
        let seconds = now.since(self.refunded).as_secs();
        if seconds > 0 {
            self.refunded = now;
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            connection.protocol.borrow_mut().elapsed(seconds);
        }
    }
}
