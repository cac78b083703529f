//! A subscription, as Python iterates over it: from an event loop, or blocking a thread.

use std::time::{Duration, Instant};

use ::store::{Mailbox, Message, Shut, Subscription};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

use super::{Calls, LOOK_EVERY, words};
use crate::gil::GilCell;

/// Messages of some channels, each a tuple of its channel and what was published.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Listening {
    mailbox: Arc<Mailbox>,
    subscription: GilCell<Option<Subscription>>,
    /// The number of the future that waits for the next message.
    awaited: GilCell<Option<u64>>,
}

impl Listening {
    pub(super) fn new(subscription: Subscription) -> Listening {
        Listening {
            mailbox: subscription.mailbox().clone(),
            subscription: GilCell::new(Some(subscription)),
            awaited: GilCell::default(),
        }
    }
}

type Next<'py> = PyResult<Option<Bound<'py, PyTuple>>>;

fn next(py: Python<'_>, taken: Result<Option<Message>, Shut>) -> Next<'_> {
    match taken {
        Ok(Some(message)) => words::message(py, message).map(Some),
        Ok(None) => Ok(None),
        Err(why) => words::shut(why).map_or(Ok(None), Err),
    }
}

#[pymethods]
impl Listening {
    /// The next message if there is one. Raises when there will be none.
    fn take<'py>(&self, py: Python<'py>) -> Next<'py> {
        next(py, self.mailbox.take())
    }

    /// The same; where there is none the future is resolved once it is worth another look.
    fn take_or_wait<'py>(
        &self,
        py: Python<'py>,
        calls: &Bound<'py, Calls>,
        future: Py<PyAny>,
    ) -> Next<'py> {
        let calls = calls.get();
        let before = self.awaited.get().take();
        before.into_iter().for_each(|number| calls.forget(number));
        let (number, waker) = calls.waker(future);
        let taken = self.mailbox.take_or_wake(&waker);
        if matches!(taken, Ok(None)) {
            *self.awaited.get() = Some(number);
        } else {
            calls.forget(number);
        }
        next(py, taken)
    }

    /// The next message, waiting for it at most so many seconds.
    #[pyo3(signature = (timeout = None))]
    fn next<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> Next<'py> {
        let span = timeout.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)));
        let end = span.and_then(Result::ok).and_then(|span| Instant::now().checked_add(span));
        let mut taken = self.mailbox.take();
        while let Ok(None) = taken {
            let left = end.map_or(LOOK_EVERY, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            py.check_signals()?;
            let mailbox = &self.mailbox;
            taken = py.detach(|| mailbox.take_within(left.min(LOOK_EVERY)));
        }
        next(py, taken)
    }

    /// Whether it was closed.
    #[getter]
    fn is_closed(&self) -> bool {
        self.subscription.get().is_none()
    }

    /// Listens no more.
    fn close(&self) {
        let subscription = self.subscription.get().take();
        drop(subscription);
    }
}
