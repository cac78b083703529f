//! Exchanges that wait for another thread: a bounded queue, and the alarm that wakes its reader.
//!
//! Workers put exchanges here; the reader takes them, together with its own events
//! ([`RequestQueue::waker`]). Promises that the reader is alarmed once for all that has arrived
//! since it went to sleep, and not at all while it is awake; that no entry is overlooked by a
//! reader that goes to sleep at that moment; and that a full queue refuses immediately, because
//! waiting for space would hold requests in a second, unbounded queue.

use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::sync::{ArrayQueue, AtomicBool, AtomicU64, Ordering, SegQueue, fence};
use crate::{Arrival, clock};

/// An event for the reader.
pub enum Event {
    /// An exchange, and when it was put here (microseconds of [`clock::precise_us`]).
    Arrived(Arrival, u64),
    /// The wait of this number has ended: see [`RequestQueue::waker`].
    Ended(u64),
}

/// No alarm is raised.
const NEVER: u64 = u64::MAX;

/// The queue. Its reader is one thread, or several that share one sleep.
pub struct RequestQueue {
    arrivals: ArrayQueue<(Arrival, u64)>,
    ended: SegQueue<u64>,
    asleep: AtomicBool,
    closed: AtomicBool,
    /// See [`RequestQueue::serve_threads`].
    whole: AtomicBool,
    /// When the alarm was raised that the reader has not seen yet.
    alarmed_us: AtomicU64,
    alarm: Box<dyn Fn() + Send + Sync>,
}

impl RequestQueue {
    /// A desk with so many places. `alarm` wakes the reader from its sleep.
    pub fn new(places: usize, alarm: impl Fn() + Send + Sync + 'static) -> Arc<RequestQueue> {
        Arc::new(RequestQueue {
            arrivals: ArrayQueue::new(places.max(1)),
            ended: SegQueue::new(),
            // The reader has not begun, and sees the first alarm when it does.
            asleep: AtomicBool::new(true),
            closed: AtomicBool::new(false),
            whole: AtomicBool::new(false),
            alarmed_us: AtomicU64::new(NEVER),
            alarm: Box::new(alarm),
        })
    }

    /// Says that the readers are threads which block: bodies are to be here as a whole before they
    /// are put here, and sessions are not for them.
    pub fn serve_threads(&self) {
        self.whole.store(true, Ordering::Release);
    }

    /// Returns true after [`RequestQueue::serve_threads`].
    pub fn serves_threads(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    /// Adds a request; returns it if the queue is full or closed. The reader is notified by the
    /// next [`RequestQueue::alert`]: a caller that adds several alerts it once.
    pub fn put(&self, arrival: Arrival) -> Result<(), Arrival> {
        if self.closed.load(Ordering::Acquire) {
            return Err(arrival);
        }
        let entry = (arrival, clock::precise_us());
        self.arrivals.push(entry).map_err(|(arrival, _)| arrival)
    }

    /// Takes the next event, if there is one. Completed waits precede new requests, because they
    /// belong to older ones.
    pub fn take(&self) -> Option<Event> {
        if let Some(number) = self.ended.pop() {
            return Some(Event::Ended(number));
        }
        self.take_arrival()
    }

    /// Takes the number of the reader's next completed wait, if there is one.
    pub fn take_ended(&self) -> Option<u64> {
        self.ended.pop()
    }

    /// The next exchange, if there is one.
    pub fn take_arrival(&self) -> Option<Event> {
        self.arrivals.pop().map(|(arrival, at_us)| Event::Arrived(arrival, at_us))
    }

    /// Returns the number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.arrivals.len()
    }

    /// Marks the reader as sleeping until it is alerted. Returns false if an event has arrived:
    /// then it stays awake.
    pub fn sleep(&self) -> bool {
        self.sleep_unless(|queue| !queue.arrivals.is_empty() || !queue.ended.is_empty())
    }

    /// Like [`RequestQueue::sleep`], for a reader that takes no requests now: only its own waits
    /// keep it awake.
    pub fn sleep_until_ended(&self) -> bool {
        self.sleep_unless(|queue| !queue.ended.is_empty())
    }

    fn sleep_unless(&self, has_event: impl Fn(&RequestQueue) -> bool) -> bool {
        // A swap, as in `awake`: a store would do, but loom knows no order of it and a worker's
        // swap.
        self.asleep.swap(true, Ordering::Acquire);
        // Between the mark and the last check; its counterpart is in `alert`. At least one of the
        // two sides sees the other's write.
        fence(Ordering::SeqCst);
        if has_event(self) && self.asleep.swap(false, Ordering::AcqRel) {
            return false;
        }
        true
    }

    /// Marks the reader as awake after an alert.
    pub fn mark_awake(&self) {
        self.asleep.swap(false, Ordering::Acquire);
        self.alarmed_us.store(NEVER, Ordering::Relaxed);
    }

    /// Records that one of several readers has handled the alert; others may keep sleeping.
    pub fn acknowledge(&self) {
        self.alarmed_us.store(NEVER, Ordering::Relaxed);
    }

    /// Returns for how many microseconds an alert has not been handled.
    pub fn unheard_us(&self) -> u64 {
        match self.alarmed_us.load(Ordering::Relaxed) {
            NEVER => 0,
            at => clock::precise_us().saturating_sub(at),
        }
    }

    /// Alerts the reader although nothing was added: another source has an event.
    pub fn wake_driver(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        (self.alarm)();
    }

    /// Creates a waker for the reader's own waits, such as for a part of a body: waking it adds an
    /// [`Event::Ended`].
    pub fn waker(self: &Arc<Self>, number: u64) -> Waker {
        Waker::from(Arc::new(Wait { desk: self.clone(), number, told: AtomicBool::new(false) }))
    }

    /// Rejects further requests.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Alarms the reader, if it sleeps.
    pub fn alert(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            self.alarmed_us.store(clock::precise_us(), Ordering::Relaxed);
            (self.alarm)();
        }
    }
}

/// A wait of the reader.
struct Wait {
    desk: Arc<RequestQueue>,
    number: u64,
    /// Whether the event was added: once is enough.
    told: AtomicBool,
}

impl Wake for Wait {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.told.swap(true, Ordering::AcqRel) {
            self.desk.ended.push(self.number);
            self.desk.alert();
        }
    }
}
