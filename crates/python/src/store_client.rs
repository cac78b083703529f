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

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use store::{CallResult, Client, Cron, Database, PendingReply, RedisUrl};

pub use calls::Calls;
pub use channel_subscription::ChannelSubscription;
pub use convert::{LostMessages, SlowSubscriber, StoreError};

/// Interval at which a blocked thread checks for signals.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A store: one that listens at a path, a Redis server, or a database in this process.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Store {
    client: Client,
}

/// Returns the URL of a Redis server, or an error that repeats none of its credentials.
fn redis_url(url: &str) -> PyResult<RedisUrl> {
    url.parse().map_err(|why| PyValueError::new_err(format!("this URL {why}")))
}

/// Returns the prefix of a Redis URL if it has one, and its visibility in seconds.
#[pyfunction]
pub fn redis_options(url: &str) -> PyResult<(Option<String>, u64)> {
    let url = redis_url(url)?;
    Ok((url.prefix().map(str::to_owned), url.visibility_s()))
}

/// Returns up to `count` times after one, in seconds since 1970, that match a cron expression.
#[pyfunction]
pub fn cron_times(expression: &str, after: u64, count: usize) -> PyResult<Vec<u64>> {
    let cron: Cron = expression.parse().map_err(|why| {
        PyValueError::new_err(format!("{expression:?} is not a cron expression: {why}"))
    })?;
    let first = cron.next_after(after);
    Ok(std::iter::successors(first, |time| cron.next_after(*time)).take(count).collect())
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (path = None, redis = None))]
    fn new(path: Option<&str>, redis: Option<&str>) -> PyResult<Store> {
        let client = match (path, redis) {
            (_, Some(url)) => Client::redis(redis_url(url)?)?,
            (Some(path), None) => Client::unix(Path::new(path))?,
            (None, None) => Client::in_process(Database::private()),
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
