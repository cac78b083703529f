//! Calls from one event loop: pending futures, and the event descriptor that signals replies to the
//! loop.
//!
//! A thread with a reply queues it and signals the descriptor, once until the loop drains the
//! queue; it never takes the GIL.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use net::EventFd;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use store::{CallResult, Client, StoreError};

use super::{ChannelSubscription, convert};
use crate::gil::GilCell;

/// The result for a future.
enum FutureResult {
    Replies(CallResult),
    /// A subscription is active, or has failed.
    Subscribed(Result<(), StoreError>),
    /// Messages may have arrived.
    Woken,
}

/// Results queued by any thread.
struct ResultQueue {
    event: EventFd,
    queue: Mutex<Vec<(u64, FutureResult)>>,
}

impl ResultQueue {
    fn queue(&self) -> MutexGuard<'_, Vec<(u64, FutureResult)>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, id: u64, result: FutureResult) {
        let mut queue = self.queue();
        queue.push((id, result));
        // The loop clears the event before it takes the queue: one signal is enough for all that is
        // queued.
        if queue.len() == 1 {
            drop(queue);
            self.event.notify();
        }
    }
}

/// Wakes the future of this id.
struct Waker {
    results: Arc<ResultQueue>,
    id: u64,
}

impl Wake for Waker {
    fn wake(self: Arc<Self>) {
        self.results.push(self.id, FutureResult::Woken);
    }
}

#[derive(Default)]
struct PendingFutures {
    futures: HashMap<u64, Py<PyAny>>,
    last: u64,
}

/// The calls of one event loop.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Calls {
    client: Client,
    results: Arc<ResultQueue>,
    pending: GilCell<PendingFutures>,
}

impl Calls {
    pub(super) fn new(client: Client) -> PyResult<Calls> {
        let results = Arc::new(ResultQueue { event: EventFd::new()?, queue: Mutex::default() });
        Ok(Calls { client, results, pending: GilCell::default() })
    }

    fn register(&self, future: Py<PyAny>) -> u64 {
        let mut pending = self.pending.get();
        pending.last += 1;
        let id = pending.last;
        pending.futures.insert(id, future);
        id
    }

    /// Drops a future that is not awaited any more.
    pub(super) fn forget(&self, id: u64) {
        let future = self.pending.get().futures.remove(&id);
        drop(future);
    }

    /// Returns the id of a future and a waker that resolves it with `None`.
    pub(super) fn waker(&self, future: Py<PyAny>) -> (u64, std::task::Waker) {
        let id = self.register(future);
        (id, Arc::new(Waker { results: self.results.clone(), id }).into())
    }
}

#[pymethods]
impl Calls {
    fn fileno(&self) -> i32 {
        self.results.event.as_fd().as_raw_fd()
    }

    /// Sends commands; the future gets the list of their replies.
    fn begin(&self, commands: &Bound<'_, PyTuple>, future: Py<PyAny>) -> PyResult<()> {
        let request = convert::request(commands)?;
        let (id, results) = (self.register(future), self.results.clone());
        self.client.submit(request, move |result| results.push(id, FutureResult::Replies(result)));
        Ok(())
    }

    /// Subscribes to channels; the future is resolved when the subscription is active.
    fn subscribe(&self, channels: Vec<String>, future: Py<PyAny>) -> ChannelSubscription {
        let channels: Vec<Vec<u8>> = channels.into_iter().map(String::into_bytes).collect();
        let (id, results) = (self.register(future), self.results.clone());
        let done = move |active| results.push(id, FutureResult::Subscribed(active));
        ChannelSubscription::new(self.client.subscribe(&channels, done))
    }

    /// Resolves the futures that have results.
    fn drain(&self, py: Python<'_>) {
        self.results.event.reset();
        let queue = std::mem::take(&mut *self.results.queue());
        for (id, result) in queue {
            let future = self.pending.get().futures.remove(&id);
            let Some(future) = future else { continue };
            let future = future.bind(py);
            // A future that cannot be resolved must not delay the others.
            if let Err(error) = resolve(future, result) {
                error.write_unraisable(py, Some(future));
            }
        }
    }
}

fn resolve(future: &Bound<'_, PyAny>, result: FutureResult) -> PyResult<()> {
    let py = future.py();
    if future.call_method0("done")?.is_truthy()? {
        return Ok(());
    }
    let nothing = || py.None().into_bound(py);
    let result = match result {
        FutureResult::Woken => Ok(nothing()),
        FutureResult::Subscribed(active) => active.map(|()| nothing()).map_err(convert::failure),
        FutureResult::Replies(result) => convert::replies(py, result).map(Bound::into_any),
    };
    match result {
        Ok(result) => future.call_method1("set_result", (result,))?,
        Err(error) => future.call_method1("set_exception", (error,))?,
    };
    Ok(())
}
