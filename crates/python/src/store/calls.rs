//! Calls from one event loop: futures that wait, and the bell by which the loop hears of answers.
//!
//! Whoever has an answer leaves it and rings, once until the loop looks; it never asks for the GIL.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use ::store::{Client, Failure, Outcome};
use net::EventFd;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{Listening, words};
use crate::gil::GilCell;

/// What has come for a future.
enum Arrived {
    Answers(Outcome),
    /// A subscription has begun, or not.
    Begun(Result<(), Failure>),
    /// There is something to look at.
    Awake,
}

/// Where answers arrive, from any thread.
struct Post {
    bell: EventFd,
    letters: Mutex<Vec<(u64, Arrived)>>,
}

impl Post {
    fn letters(&self) -> MutexGuard<'_, Vec<(u64, Arrived)>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, number: u64, arrived: Arrived) {
        let mut letters = self.letters();
        letters.push((number, arrived));
        // The loop hears the bell before it looks: one ring is enough for all that lies here.
        if letters.len() == 1 {
            drop(letters);
            self.bell.notify();
        }
    }
}

/// Wakes the future of that number.
struct Waker {
    post: Arc<Post>,
    number: u64,
}

impl Wake for Waker {
    fn wake(self: Arc<Self>) {
        self.post.put(self.number, Arrived::Awake);
    }
}

#[derive(Default)]
struct Waiting {
    futures: HashMap<u64, Py<PyAny>>,
    last: u64,
}

/// The calls of one event loop.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Calls {
    client: Client,
    post: Arc<Post>,
    waiting: GilCell<Waiting>,
}

impl Calls {
    pub(super) fn new(client: Client) -> PyResult<Calls> {
        let post = Arc::new(Post { bell: EventFd::new()?, letters: Mutex::default() });
        Ok(Calls { client, post, waiting: GilCell::default() })
    }

    fn keep(&self, future: Py<PyAny>) -> u64 {
        let mut waiting = self.waiting.get();
        waiting.last += 1;
        let number = waiting.last;
        waiting.futures.insert(number, future);
        number
    }

    /// Nobody waits for that future any more.
    pub(super) fn forget(&self, number: u64) {
        let future = self.waiting.get().futures.remove(&number);
        drop(future);
    }

    /// A future that is resolved with nothing when the waker is woken.
    pub(super) fn waker(&self, future: Py<PyAny>) -> (u64, std::task::Waker) {
        let number = self.keep(future);
        (number, Arc::new(Waker { post: self.post.clone(), number }).into())
    }
}

#[pymethods]
impl Calls {
    fn fileno(&self) -> i32 {
        self.post.bell.as_fd().as_raw_fd()
    }

    /// Sends commands; the future gets the list of their answers.
    fn begin(&self, commands: &Bound<'_, PyTuple>, future: Py<PyAny>) -> PyResult<()> {
        let request = words::request(commands)?;
        let (number, post) = (self.keep(future), self.post.clone());
        self.client.submit(request, move |outcome| post.put(number, Arrived::Answers(outcome)));
        Ok(())
    }

    /// Listens to channels; the future is resolved when everything published from then on will be
    /// heard.
    fn subscribe(&self, channels: Vec<String>, future: Py<PyAny>) -> Listening {
        let channels: Vec<Vec<u8>> = channels.into_iter().map(String::into_bytes).collect();
        let (number, post) = (self.keep(future), self.post.clone());
        let done = move |begun| post.put(number, Arrived::Begun(begun));
        Listening::new(self.client.subscribe(&channels, done))
    }

    /// Resolves the futures for which something has come.
    fn drain(&self, py: Python<'_>) {
        self.post.bell.reset();
        let letters = std::mem::take(&mut *self.post.letters());
        for (number, arrived) in letters {
            let future = self.waiting.get().futures.remove(&number);
            let Some(future) = future else { continue };
            let future = future.bind(py);
            // One that cannot be resolved is no reason to keep the others waiting.
            if let Err(error) = resolve(future, arrived) {
                error.write_unraisable(py, Some(future));
            }
        }
    }
}

fn resolve(future: &Bound<'_, PyAny>, arrived: Arrived) -> PyResult<()> {
    let py = future.py();
    if future.call_method0("done")?.is_truthy()? {
        return Ok(());
    }
    let nothing = || py.None().into_bound(py);
    let result = match arrived {
        Arrived::Awake => Ok(nothing()),
        Arrived::Begun(begun) => begun.map(|()| nothing()).map_err(words::failure),
        Arrived::Answers(outcome) => words::answers(py, outcome).map(Bound::into_any),
    };
    match result {
        Ok(result) => future.call_method1("set_result", (result,))?,
        Err(error) => future.call_method1("set_exception", (error,))?,
    };
    Ok(())
}
