//! The store that the processes of an application share, as Python reaches it.
//!
//! A call from a thread blocks that thread without the GIL; a call from an event loop gives a
//! future, which is resolved when the loop hears the bell of its [`Calls`]. What values mean is for
//! `tidegate/cache.py` and `tidegate/broadcast.py` to say.

mod calls;
mod listening;
mod words;

use std::path::Path;
use std::time::Duration;

use ::store::{Client, Outcome, Space, Waiting};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

pub use calls::Calls;
pub use listening::Listening;
pub use words::{LostMessages, SlowSubscriber, StoreError};

/// How long a thread waits before it looks whether the process was sent a signal.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A store: one that listens at a path, or one in this process.
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
            Some(path) => Client::there(Path::new(path))?,
            None => Client::here(Space::private()),
        };
        Ok(Store { client })
    }

    /// Whether it is in this process: a call never waits.
    #[getter]
    fn is_local(&self) -> bool {
        self.client.is_here()
    }

    /// The answers to commands, tuples of words; raises what the first that was refused says.
    fn call<'py>(&self, commands: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyList>> {
        let py = commands.py();
        let waiting = self.client.start(words::request(commands)?);
        words::answers(py, wait(py, &waiting)?)
    }

    /// Calls from the running thread's event loop, which is to call `drain` when `fileno` can be
    /// read.
    fn calls(&self) -> PyResult<Calls> {
        Calls::new(self.client.clone())
    }

    /// Listens to channels; returns when everything published from then on will be heard.
    fn listen(&self, py: Python<'_>, channels: Vec<String>) -> PyResult<Listening> {
        let channels: Vec<Vec<u8>> = channels.into_iter().map(String::into_bytes).collect();
        let (subscription, begun) = self.client.listen(&channels);
        let listening = Listening::new(subscription);
        words::answers(py, wait(py, &begun)?)?;
        Ok(listening)
    }
}

/// Waits without the GIL; a signal may end it.
fn wait(py: Python<'_>, waiting: &Waiting) -> PyResult<Outcome> {
    let mut outcome = waiting.within(Duration::ZERO);
    loop {
        match outcome {
            Some(outcome) => return Ok(outcome),
            None => py.check_signals()?,
        }
        outcome = py.detach(|| waiting.within(LOOK_EVERY));
    }
}
