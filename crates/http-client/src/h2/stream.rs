//! One stream, as its exchange and the driver of its connection share it.
//!
//! The driver writes what arrives and the exchange reads it; both run on one worker, so cells are
//! enough. What has arrived survives the end of the stream and of the connection. A stream is used
//! again for another request once its exchange has ended.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Waker};

use message::http2::ReceivedData;
use message::{Fault, FaultKind, Headers, Retry};
use wire::h2::{ErrorCode, Event, Fields, StreamKey};

use crate::faults;
use crate::limits::INTERIM_MAX;

pub(super) struct Http2Stream {
    key: Cell<StreamKey>,
    pub(super) received: RefCell<Received>,
    /// Of the task that runs the exchange.
    waker: Cell<Option<Waker>>,
}

/// What the exchange has not taken.
#[derive(Default)]
pub(super) struct Received {
    pub(super) interim: VecDeque<(u16, Headers)>,
    /// Interim responses so far.
    interim_count: u32,
    pub(super) head: Option<(u16, Headers)>,
    /// The final head has arrived.
    has_begun: bool,
    pub(super) data: ReceivedData,
    pub(super) trailers: Option<Headers>,
    /// The response is complete.
    pub(super) is_whole: bool,
    pub(super) fault: Option<Fault>,
}

impl Http2Stream {
    pub(super) fn new(key: StreamKey) -> Rc<Http2Stream> {
        let (key, waker) = (Cell::new(key), Cell::new(None));
        Rc::new(Http2Stream { key, received: RefCell::default(), waker })
    }

    /// Makes it the stream of another request.
    pub(super) fn restart(&self, key: StreamKey) {
        self.key.set(key);
        self.received.take();
        self.waker.take();
    }

    pub(super) fn key(&self) -> StreamKey {
        self.key.get()
    }

    /// Wakes the exchange with the next event, or when its content is sent.
    pub(super) fn register(&self, cx: &Context<'_>) {
        let waker = match self.waker.take() {
            Some(known) if known.will_wake(cx.waker()) => known,
            _ => cx.waker().clone(),
        };
        self.waker.set(Some(waker));
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Ends the exchange because its connection has ended.
    pub(super) fn fail(&self, fault: &Fault) {
        self.received.borrow_mut().fail(|| fault.clone(), || faults::cut_short(None, "body"));
        self.wake();
    }

    /// Notes what the server did; `fields` are those of the event.
    pub(super) fn note(&self, event: Event, fields: &Fields) {
        self.received.borrow_mut().note(event, fields);
        self.wake();
    }
}

impl Received {
    fn fail(&mut self, unbegun: impl FnOnce() -> Fault, begun: impl FnOnce() -> Fault) {
        if !self.is_whole {
            self.fault.get_or_insert_with(|| if self.has_begun { begun() } else { unbegun() });
        }
    }

    fn note(&mut self, event: Event, fields: &Fields) {
        let headers = || Headers::received(&fields.text, &fields.spans);
        match event {
            Event::Response { status, ends, .. } if status >= 200 => {
                self.head = Some((status, headers()));
                self.has_begun = true;
                self.is_whole = ends;
            }
            Event::Response { status, .. } => {
                self.interim_count += 1;
                if self.interim_count <= INTERIM_MAX {
                    self.interim.push_back((status, headers()));
                } else {
                    self.fault = Some(faults::protocol("too many interim responses"));
                }
            }
            Event::Data { data, ends, .. } => {
                if !data.is_empty() {
                    self.data.push(data);
                }
                self.is_whole = ends;
            }
            Event::Trailers { .. } => {
                self.trailers = Some(headers()).filter(|trailers| !trailers.is_empty());
                self.is_whole = true;
            }
            Event::Malformed { reject, .. } => {
                self.fail(|| faults::bad_head(reject), || faults::bad_head(reject));
            }
            Event::Reset { code, unprocessed, .. } => {
                self.fail(|| reset(code, unprocessed), || faults::cut_short(None, "body"));
            }
            Event::Request { .. } | Event::Rejected { .. } | Event::GoAway { .. } => {}
        }
    }
}

/// The server reset a stream before its response.
fn reset(code: ErrorCode, unprocessed: bool) -> Fault {
    let retry = if unprocessed { Retry::Unsent } else { Retry::IfIdempotent };
    let detail = format!("the server reset the stream: {code:?}");
    Fault::new(FaultKind::ConnectionTerminated, detail).with_retry(retry)
}
