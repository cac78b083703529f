//! The Python interface of the store that the processes of an application share.
//!
//! A call from a thread blocks that thread without the GIL; a call from an event loop gives a
//! future, which is resolved when the loop drains its [`Calls`]. `tidegate/cache.py` and
//! `tidegate/broadcast.py` give the values their meaning.

mod calls;
mod channel_subscription;
mod convert;

use std::path::Path;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use store::{CallResult, Client, Database, PendingReply};

pub use calls::Calls;
pub use channel_subscription::ChannelSubscription;
pub use convert::{LostMessages, SlowSubscriber, StoreError};

/// Interval at which a blocked thread checks for signals.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A store: one that listens at a path, or a database in this process.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Store {
    client: Client,
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (path = None))]
    fn new(path: Option<&str>) -> PyResult<Store> {
        let client = match path {
            Some(path) => Client::unix(Path::new(path))?,
            None => Client::in_process(Database::private()),
        };
        Ok(Store { client })
    }

    /// True if the database is in this process: a call never waits.
    #[getter]
    fn is_local(&self) -> bool {
        self.client.is_in_process()
    }

    /// Executes commands, each a tuple of arguments, and returns their replies; raises the first
    /// error reply.
    fn call<'py>(&self, commands: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyList>> {
        let py = commands.py();
        let pending = self.client.start(convert::request(commands)?);
        convert::replies(py, wait(py, &pending)?)
    }

    /// Calls from the running thread's event loop, which must call `drain` when `fileno` is
    /// readable.
    fn calls(&self) -> PyResult<Calls> {
        Calls::new(self.client.clone())
    }

    /// Subscribes to channels; returns when the subscription is active.
    fn subscribe(&self, py: Python<'_>, channels: Vec<String>) -> PyResult<ChannelSubscription> {
        let channels: Vec<Vec<u8>> = channels.into_iter().map(String::into_bytes).collect();
        let (subscription, active) = self.client.start_subscribe(&channels);
        let subscription = ChannelSubscription::new(subscription);
        convert::replies(py, wait(py, &active)?)?;
        Ok(subscription)
    }
}

/// Waits without the GIL; a signal can end it.
fn wait(py: Python<'_>, pending: &PendingReply) -> PyResult<CallResult> {
    let mut result = pending.wait(Duration::ZERO);
    loop {
        match result {
            Some(result) => return Ok(result),
            None => py.check_signals()?,
        }
        result = py.detach(|| pending.wait(SIGNAL_CHECK_INTERVAL));
    }
}
