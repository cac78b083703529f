//! The live log: finished requests, step by step, for the clients of the admin API that watch.
//!
//! Owns the clients that watch, and their filters. Promises that a request costs one load while no
//! client watches; that a worker never waits for a client: a request that finds the queue of its
//! client full, or that comes too soon after others, is dropped and counted; and that memory is
//! bounded, because queues and texts are. Never decides how a request is shown: `admin` does.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use message::{ExportQueue, FinishedTrace, Request};
use plugin::Condition;

/// The most clients that watch at the same time.
pub const LIVE_CLIENTS_MAX: usize = 8;
/// Requests that wait for a client; further ones are dropped and counted.
const QUEUE: usize = 512;
/// The most bytes of a text that a client sees, such as a path.
pub(crate) const TEXT_BYTES_MAX: usize = 1024;

/// The finished requests that wait for a client.
pub type LiveQueue = ExportQueue<FinishedTrace>;

/// The requests that a client watches: those that fulfil all of this.
#[derive(Clone, Debug, Default)]
pub struct LiveFilter {
    /// The name of their route.
    pub route: Option<String>,
    pub statuses: Option<RangeInclusive<u16>>,
    /// They take at least this long.
    pub slow_us: Option<u64>,
    /// They fulfil these conditions at their end.
    pub conditions: Vec<Condition>,
}

impl LiveFilter {
    fn is_everything(&self) -> bool {
        self.route.is_none()
            && self.statuses.is_none()
            && self.slow_us.is_none()
            && self.conditions.is_empty()
    }

    fn matches(&self, request: &Request, status: u16, duration_us: u64) -> bool {
        let has_route =
            |name: &String| request.route.as_ref().is_some_and(|route| *route.name == **name);
        self.route.as_ref().is_none_or(has_route)
            && self.statuses.as_ref().is_none_or(|statuses| statuses.contains(&status))
            && self.slow_us.is_none_or(|slow_us| duration_us >= slow_us)
            && self.conditions.iter().all(|condition| condition.holds(request))
    }
}

/// A client's filter, and the queue that workers fill.
struct LiveClient {
    filter: LiveFilter,
    queue: Arc<LiveQueue>,
}

/// How fast requests are recorded for clients without a filter: one each millisecond in the long
/// run, [`QUEUE`] at once. Under load those that are recorded, which take longer than others, are
/// then apart from one another: nothing waits for a row of them.
#[derive(Default)]
struct RecordingRate {
    /// When the last request would have come if each had come a millisecond after the one before.
    reached_ms: AtomicU64,
}

impl RecordingRate {
    /// True if another request may be recorded at this time, which counts as one.
    fn admits(&self, now_ms: u64) -> bool {
        let next = |reached_ms: u64| {
            let next_ms = reached_ms.max(now_ms) + 1;
            (next_ms <= now_ms + QUEUE as u64).then_some(next_ms)
        };
        self.reached_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

/// The clients of the process that watch.
#[derive(Default)]
pub struct LiveLog {
    /// Twice the number of changes of `clients`, plus 1 if there are any.
    state: AtomicU64,
    rate: RecordingRate,
    clients: Mutex<Vec<Arc<LiveClient>>>,
}

impl LiveLog {
    /// True if a client watches: then requests are recorded.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.state.load(Ordering::Relaxed) & 1 == 1
    }

    /// Begins to watch; `None` if too many clients do already.
    pub fn watch(self: &Arc<Self>, filter: LiveFilter) -> Option<LiveWatch> {
        let mut clients = self.clients();
        if clients.len() >= LIVE_CLIENTS_MAX {
            return None;
        }
        let client = Arc::new(LiveClient { filter, queue: LiveQueue::new(QUEUE, QUEUE) });
        clients.push(client.clone());
        self.note_change(&clients);
        Some(LiveWatch { log: self.clone(), client })
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Arc<LiveClient>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_change(&self, clients: &[Arc<LiveClient>]) {
        let changes = (self.state.load(Ordering::Relaxed) >> 1) + 1;
        let state = (changes << 1) | u64::from(!clients.is_empty());
        self.state.store(state, Ordering::Release);
    }
}

/// A client that watches, until this is dropped.
pub struct LiveWatch {
    log: Arc<LiveLog>,
    client: Arc<LiveClient>,
}

impl LiveWatch {
    /// The finished requests.
    pub fn queue(&self) -> &LiveQueue {
        &self.client.queue
    }
}

impl Drop for LiveWatch {
    fn drop(&mut self) {
        let mut clients = self.log.clients();
        clients.retain(|client| !Arc::ptr_eq(client, &self.client));
        self.log.note_change(&clients);
    }
}

/// One worker's copy of the list of clients, so that requests take no lock.
#[derive(Default)]
pub(crate) struct LiveClients {
    state: u64,
    clients: Vec<Arc<LiveClient>>,
}

impl LiveClients {
    /// Takes over changes of the list.
    pub(crate) fn update(&mut self, log: &LiveLog) {
        let state = log.state.load(Ordering::Acquire);
        if self.state != state {
            let clients = log.clients();
            // Read again: it does not change while the lock is held.
            self.state = log.state.load(Ordering::Acquire);
            self.clients = clients.clone();
        }
    }

    /// True if a request that begins is to be recorded. While no client can take another request,
    /// whatever it is, recording costs a worker nothing: the request counts as dropped at once.
    pub(crate) fn have_room(&self, log: &LiveLog, now_ms: u64) -> bool {
        let clients = self.clients.iter();
        if !clients.clone().all(|client| client.filter.is_everything()) {
            return true;
        }
        if !clients.clone().all(|client| client.queue.is_full()) && log.rate.admits(now_ms) {
            return true;
        }
        clients.for_each(|client| client.queue.refuse());
        false
    }

    /// The queues of the clients that a finished request is for, and that have room for it.
    pub(crate) fn queues(
        &self,
        request: &Request,
        status: u16,
        duration_us: u64,
    ) -> Vec<Arc<LiveQueue>> {
        let matching = self
            .clients
            .iter()
            .filter(|client| client.filter.matches(request, status, duration_us));
        matching.map(|client| &client.queue).filter(|queue| queue.admits()).cloned().collect()
    }
}

/// Passes a finished request to clients.
pub(crate) fn push(queues: &[Arc<LiveQueue>], mut trace: FinishedTrace) {
    trace.truncate_texts(TEXT_BYTES_MAX);
    if let Some((last, others)) = queues.split_last() {
        others.iter().for_each(|queue| queue.push(trace.clone()));
        last.push(trace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::{Headers, Target};

    fn request(path: &'static str) -> Request {
        let target = Target::new(path.into()).unwrap();
        Request::made_up(wire::Method::Get, target, Headers::new())
    }

    #[test]
    fn requests_are_recorded_while_a_client_watches() {
        let log = Arc::new(LiveLog::default());
        let mut worker = LiveClients::default();
        assert!(!log.is_watched());
        let watch = log.watch(LiveFilter::default()).expect("the first");
        assert!(log.is_watched());
        worker.update(&log);
        assert_eq!(worker.queues(&request("/"), 200, 1).len(), 1);
        drop(watch);
        assert!(!log.is_watched());
        worker.update(&log);
        assert!(worker.queues(&request("/"), 200, 1).is_empty());
    }

    #[test]
    fn the_number_of_clients_is_bounded() {
        let log = Arc::new(LiveLog::default());
        let watch = || log.watch(LiveFilter::default());
        let mut watches: Vec<_> = (0..LIVE_CLIENTS_MAX).map(|_| watch()).collect();
        assert!(watches.iter().all(Option::is_some) && watch().is_none());
        watches.pop();
        assert!(watch().is_some());
    }

    #[test]
    fn a_client_sees_what_its_filter_says() {
        let condition = |text| Condition::parse_expression(text).unwrap();
        let all = LiveFilter {
            route: None,
            statuses: Some(500..=599),
            slow_us: Some(1000),
            conditions: vec![condition(r#"query.user == "7""#)],
        };
        assert!(all.matches(&request("/a?user=7"), 502, 1000));
        assert!(!all.matches(&request("/a?user=7"), 499, 1000));
        assert!(!all.matches(&request("/a?user=7"), 502, 999));
        assert!(!all.matches(&request("/a?user=8"), 502, 1000));
        let of_route = LiveFilter { route: Some("shop".to_owned()), ..LiveFilter::default() };
        assert!(!of_route.matches(&request("/"), 200, 1), "a request without a route");
    }

    #[test]
    fn under_load_requests_are_recorded_a_millisecond_apart() {
        let rate = RecordingRate::default();
        let admitted = |now_ms| (0..QUEUE + 9).filter(|_| rate.admits(now_ms)).count();
        assert_eq!([7000, 7000, 7001, 7002, 7004].map(admitted), [QUEUE, 0, 1, 1, 2]);
        assert_eq!(admitted(9000), QUEUE, "after a quiet time");
    }

    #[test]
    fn a_request_that_finds_no_room_is_counted() {
        let log = Arc::new(LiveLog::default());
        let watch = log.watch(LiveFilter::default()).unwrap();
        let mut worker = LiveClients::default();
        worker.update(&log);
        let context = wire::trace_context::TraceContext::new([1; 16], [2; 8], true);
        let recording = message::Recording::Steps;
        let trace = message::RequestTrace::begin(context, None, None, recording).take();
        for _ in 0..QUEUE + 3 {
            push(&worker.queues(&request("/"), 200, 1), trace.clone());
        }
        assert_eq!((watch.queue().len(), watch.queue().take_dropped()), (QUEUE, 3));
    }
}
