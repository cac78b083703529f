//! Work of this worker that goes on apart from the exchange that began it (seam 6).
//!
//! Owns the way there for rooms without a runtime of their own: a run of [`crate::Next`] for
//! nobody, a body that is read for others. Promises that what is dropped is cancelled, unless it
//! was let go, and that a worker has at most [`APART_MAX`] of them: who is refused does without.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::task::{AbortHandle, JoinHandle};

/// Runs apart that one worker may have at a time.
pub const APART_MAX: usize = 1024;

thread_local! {
    static RUNNING: Cell<usize> = const { Cell::new(0) };
}

/// One of those that run; counts itself.
struct Counted;

impl Counted {
    fn new() -> Option<Counted> {
        let running = RUNNING.get();
        (running < APART_MAX).then(|| {
            RUNNING.set(running + 1);
            Counted
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // A thread that ends may have lost its count before its tasks.
        let _ = RUNNING.try_with(|running| running.set(running.get() - 1));
    }
}

/// Runs a future as a task of its own; `None` if too many run already. It may hold what is not
/// `Send`: it stays on this worker.
pub fn apart<F>(future: F) -> Option<Apart<F::Output>>
where
    F: Future<Output: 'static> + 'static,
{
    let counted = Counted::new()?;
    let task = tokio::task::spawn_local(async move {
        let output = future.await;
        drop(counted);
        output
    });
    Some(Apart { task: Some(task) })
}

/// A run apart: a future of its result. Dropping it cancels the run.
pub struct Apart<T> {
    task: Option<JoinHandle<T>>,
}

/// Cancels a run from anywhere: held by whoever knows that nobody wants it any more.
#[derive(Clone, Debug)]
pub struct Canceller(AbortHandle);

impl Canceller {
    /// The run is dropped where it waits, on its own worker, soon. Nothing happens to one that has
    /// ended.
    pub fn cancel(&self) {
        self.0.abort();
    }
}

impl<T> Apart<T> {
    /// Lets it go on by itself.
    pub fn let_go(mut self) {
        self.task = None;
    }

    pub fn canceller(&self) -> Option<Canceller> {
        self.task.as_ref().map(|task| Canceller(task.abort_handle()))
    }
}

impl<T> Future for Apart<T> {
    /// `None` if it was cancelled or panicked.
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(task) = &mut self.task else { return Poll::Pending };
        let ended = ready!(Pin::new(task).poll(cx));
        self.task = None;
        Poll::Ready(ended.ok())
    }
}

impl<T> Drop for Apart<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
