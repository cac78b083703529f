//! Work of this worker that goes on apart from the exchange that began it (seam 6).
//!
//! Owns the way there for rooms without a runtime of their own: a run of [`crate::Next`] for
//! nobody, a body that is read for others. Promises that what is dropped is cancelled, unless it
//! was let go, and that a worker has at most [`BACKGROUND_MAX`] of them.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use net::task::{AbortHandle, JoinHandle};

/// Runs apart that one worker may have at a time.
pub const BACKGROUND_MAX: usize = 1024;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

/// The right to one run apart. It is asked for first, so that who is refused still has what the run
/// would have taken along.
#[derive(Debug)]
pub struct BackgroundPermit(());

impl BackgroundPermit {
    /// A seat, unless too many are taken.
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
            let _seat = self;
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

/// A run apart: a future of its result. Dropping it cancels the run.
pub struct BackgroundTask<T> {
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

impl<T> BackgroundTask<T> {
    /// Lets it go on by itself.
    pub fn let_go(mut self) {
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
    fn a_run_is_cancelled_by_dropping_unless_it_was_let_go() {
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
            let let_go = BackgroundPermit::take().unwrap().run(waiting(&held));
            let cancelled = BackgroundPermit::take().unwrap().run(waiting(&held));
            tokio::task::yield_now().await;
            let canceller = let_go.canceller().unwrap();
            drop(dropped);
            let_go.let_go();
            tokio::task::yield_now().await;
            assert_eq!((Rc::strong_count(&held), TAKEN.get()), (3, 2));
            // From another thread, as if nobody there wanted it any more.
            let elsewhere = cancelled.canceller().unwrap();
            std::thread::spawn(move || elsewhere.cancel()).join().unwrap();
            assert_eq!(cancelled.await, None);
            canceller.cancel();
            tokio::task::yield_now().await;
            assert_eq!((Rc::strong_count(&held), TAKEN.get()), (1, 0));
        });
    }

    #[test]
    fn seats_are_bounded_and_come_back() {
        block_on_local(async {
            let mut seats: Vec<BackgroundPermit> =
                std::iter::from_fn(BackgroundPermit::take).collect();
            assert_eq!(seats.len(), BACKGROUND_MAX);
            let ran = seats.pop().unwrap().run(async { 7 });
            assert!(BackgroundPermit::take().is_none());
            assert_eq!(ran.await, Some(7));
            assert!(BackgroundPermit::take().is_some());
        });
    }
}
