//! The queue of woken streams of a connection: each is queued once, and the task is woken once for
//! all.
//!
//! Wakes come from the threads of the application, so there is a lock; the whole queue is taken at
//! once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

#[derive(Default)]
pub(super) struct ReadyQueue(Mutex<ReadyState>);

#[derive(Default)]
struct ReadyState {
    indices: Vec<usize>,
    /// Wakes the connection's task while it waits.
    owner: Option<Waker>,
}

impl ReadyQueue {
    fn state(&self) -> MutexGuard<'_, ReadyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the woken streams to `indices`. If there are none, the task is woken when there are.
    pub(super) fn take(&self, indices: &mut Vec<usize>, cx: &Context<'_>) {
        let mut state = self.state();
        if !state.indices.is_empty() {
            indices.append(&mut state.indices);
        } else if !state.owner.as_ref().is_some_and(|owner| owner.will_wake(cx.waker())) {
            state.owner = Some(cx.waker().clone());
        }
    }

    fn push(&self, index: usize) {
        let mut state = self.state();
        state.indices.push(index);
        let owner = state.owner.take();
        drop(state);
        if let Some(owner) = owner {
            owner.wake();
        }
    }
}

/// The waker of a stream.
pub(super) struct StreamWaker {
    index: usize,
    queued: AtomicBool,
    ready: Arc<ReadyQueue>,
}

impl StreamWaker {
    pub(super) fn new(index: usize, ready: Arc<ReadyQueue>) -> Arc<StreamWaker> {
        Arc::new(StreamWaker { index, queued: AtomicBool::new(false), ready })
    }

    /// Marks the stream as taken from the queue: the next wake queues it again.
    pub(super) fn taken(&self) {
        self.queued.store(false, Ordering::Release);
    }
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.push(self.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count(std::sync::atomic::AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn many_wakes_of_many_streams_wake_the_task_once() {
        let (ready, count) = (Arc::new(ReadyQueue::default()), Arc::new(Count(0.into())));
        let owner = Waker::from(count.clone());
        let cx = Context::from_waker(&owner);
        let marks: Vec<_> = (0..3).map(|index| StreamWaker::new(index, ready.clone())).collect();
        let mut indices = Vec::new();
        ready.take(&mut indices, &cx);
        for stream_waker in &marks {
            stream_waker.wake_by_ref();
            stream_waker.wake_by_ref();
        }
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        ready.take(&mut indices, &cx);
        assert_eq!(indices, [0, 1, 2]);
        marks[1].wake_by_ref();
        marks[0].taken();
        marks[0].wake_by_ref();
        indices.clear();
        ready.take(&mut indices, &cx);
        assert_eq!(indices, [0], "the others are still queued");
    }
}
