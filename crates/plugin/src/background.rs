//! Tasks of this worker that run apart from the exchange that began them (extension point 6).
//!
//! Owns spawning for crates without a runtime of their own: a run of [`crate::Next`] without a
//! client, a body that is read for several readers. Promises that a dropped task is cancelled
//! unless it was detached, and that a worker has at most [`BACKGROUND_MAX`] of them.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use net::task::{AbortHandle, JoinHandle};

/// Background tasks that one worker may have at a time.
pub const BACKGROUND_MAX: usize = 1024;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

/// The right to one background task. It is taken before the task is made, so that a caller without
/// one still owns what the task would have consumed.
///
/// ```
/// # net::worker::block_on_local(async {
/// let permit = plugin::BackgroundPermit::take().expect("few tasks run");
/// let task = permit.run(async { 6 * 7 });
/// assert_eq!(task.await, Some(42));
/// # });
/// ```
#[derive(Debug)]
pub struct BackgroundPermit(());

impl BackgroundPermit {
    /// A permit, unless too many are taken.
    pub fn take() -> Option<BackgroundPermit> {
        let taken = TAKEN.get();
        (taken < BACKGROUND_MAX).then(|| {
            TAKEN.set(taken + 1);
            BackgroundPermit(())
        })
    }

    /// Runs a future as a task of its own. It may hold what is not `Send`: it stays on this worker.
    pub fn run<F>(self, future: F) -> BackgroundTask<F::Output>
    where
        F: Future<Output: 'static> + 'static,
    {
        let task = net::task::spawn_local(async move {
            let _permit = self;
            future.await
        });
        BackgroundTask { task: Some(task) }
    }
}

impl Drop for BackgroundPermit {
    fn drop(&mut self) {
        // A thread that ends may have lost its count before its tasks.
        let _ = TAKEN.try_with(|taken| taken.set(taken.get() - 1));
    }
}

/// A background task: a future of its result. Dropping it cancels the task.
pub struct BackgroundTask<T> {
    task: Option<JoinHandle<T>>,
}

/// Cancels a background task from any thread, once its result is not needed any more.
#[derive(Clone, Debug)]
pub struct Canceller(AbortHandle);

impl Canceller {
    /// Drops the task where it waits, on its own worker, soon. Does nothing after its end.
    pub fn cancel(&self) {
        self.0.abort();
    }
}

impl<T> BackgroundTask<T> {
    /// Lets the task continue without this handle.
    pub fn detach(mut self) {
        self.task = None;
    }

    pub fn canceller(&self) -> Option<Canceller> {
        self.task.as_ref().map(|task| Canceller(task.abort_handle()))
    }
}

impl<T> Future for BackgroundTask<T> {
    /// `None` if it was cancelled or panicked.
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(task) = &mut self.task else { return Poll::Pending };
        let ended = ready!(Pin::new(task).poll(cx));
        self.task = None;
        Poll::Ready(ended.ok())
    }
}

impl<T> Drop for BackgroundTask<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use net::worker::block_on_local;

    #[test]
    fn a_task_is_cancelled_by_dropping_unless_it_was_detached() {
        block_on_local(async {
            let held = Rc::new(());
            let waiting = |held: &Rc<()>| {
                let held = held.clone();
                async move {
                    std::future::pending::<()>().await;
                    drop(held);
                }
            };
            let dropped = BackgroundPermit::take().unwrap().run(waiting(&held));
            let detached = BackgroundPermit::take().unwrap().run(waiting(&held));
            let cancelled = BackgroundPermit::take().unwrap().run(waiting(&held));
            tokio::task::yield_now().await;
            let canceller = detached.canceller().unwrap();
            drop(dropped);
            detached.detach();
            tokio::task::yield_now().await;
            assert_eq!((Rc::strong_count(&held), TAKEN.get()), (3, 2));
            // From another thread, as a writer of a shared body does.
            let remote = cancelled.canceller().unwrap();
            std::thread::spawn(move || remote.cancel()).join().unwrap();
            assert_eq!(cancelled.await, None);
            canceller.cancel();
            tokio::task::yield_now().await;
            assert_eq!((Rc::strong_count(&held), TAKEN.get()), (1, 0));
        });
    }

    #[test]
    fn permits_are_bounded_and_come_back() {
        block_on_local(async {
            let mut permits: Vec<BackgroundPermit> =
                std::iter::from_fn(BackgroundPermit::take).collect();
            assert_eq!(permits.len(), BACKGROUND_MAX);
            let ran = permits.pop().unwrap().run(async { 7 });
            assert!(BackgroundPermit::take().is_none());
            assert_eq!(ran.await, Some(7));
            assert!(BackgroundPermit::take().is_some());
        });
    }
}
