//! A subscription that Python iterates over, from an event loop or by blocking a thread.

use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use store::{Message, QueueClosed, SubscriberQueue, Subscription};

use super::{Calls, SIGNAL_CHECK_INTERVAL, convert};
use crate::gil::GilCell;

/// Messages of some channels, each a tuple of its channel and payload.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct ChannelSubscription {
    queue: Arc<SubscriberQueue>,
    subscription: GilCell<Option<Subscription>>,
    /// The id of the future that waits for the next message.
    awaited: GilCell<Option<u64>>,
}

impl ChannelSubscription {
    pub(super) fn new(subscription: Subscription) -> ChannelSubscription {
        ChannelSubscription {
            queue: subscription.queue().clone(),
            subscription: GilCell::new(Some(subscription)),
            awaited: GilCell::default(),
        }
    }
}

type Next<'py> = PyResult<Option<Bound<'py, PyTuple>>>;

fn next(py: Python<'_>, taken: Result<Option<Message>, QueueClosed>) -> Next<'_> {
    match taken {
        Ok(Some(message)) => convert::message(py, message).map(Some),
        Ok(None) => Ok(None),
        Err(why) => convert::queue_closed(why).map_or(Ok(None), Err),
    }
}

#[pymethods]
impl ChannelSubscription {
    /// Returns the next message if there is one. Raises when the subscription has ended.
    fn take<'py>(&self, py: Python<'py>) -> Next<'py> {
        next(py, self.queue.pop())
    }

    /// Like `take`; if there is none, the future is resolved when there may be one.
    fn take_or_wait<'py>(
        &self,
        py: Python<'py>,
        calls: &Bound<'py, Calls>,
        future: Py<PyAny>,
    ) -> Next<'py> {
        let calls = calls.get();
        let before = self.awaited.get().take();
        before.into_iter().for_each(|id| calls.forget(id));
        let (id, waker) = calls.waker(future);
        let taken = self.queue.pop_or_wake(&waker);
        if matches!(taken, Ok(None)) {
            *self.awaited.get() = Some(id);
        } else {
            calls.forget(id);
        }
        next(py, taken)
    }

    /// Returns the next message; waits for it at most `timeout` seconds.
    #[pyo3(signature = (timeout = None))]
    fn next<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> Next<'py> {
        let span = timeout.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)));
        let end = span.and_then(Result::ok).and_then(|span| Instant::now().checked_add(span));
        let mut taken = self.queue.pop();
        while let Ok(None) = taken {
            let left = end
                .map_or(SIGNAL_CHECK_INTERVAL, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            py.check_signals()?;
            let queue = &self.queue;
            taken = py.detach(|| queue.pop_timeout(left.min(SIGNAL_CHECK_INTERVAL)));
        }
        next(py, taken)
    }

    /// True if it was closed.
    #[getter]
    fn is_closed(&self) -> bool {
        self.subscription.get().is_none()
    }

    /// Unsubscribes.
    fn close(&self) {
        let subscription = self.subscription.get().take();
        drop(subscription);
    }
}
