//! Which streams of a connection have something to say: each in the queue once, and its task woken
//! once for all of them.
//!
//! Wakes come from the threads that answer, so there is a lock; whoever takes the queue takes all
//! of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

#[derive(Default)]
pub(super) struct Ready(Mutex<State>);

#[derive(Default)]
struct State {
    places: Vec<usize>,
    /// The connection's task, while it waits.
    owner: Option<Waker>,
}

impl Ready {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts what is ready behind what is in `places`. Where there is nothing, the task is woken
    /// when there is.
    pub(super) fn take(&self, places: &mut Vec<usize>, cx: &Context<'_>) {
        let mut state = self.state();
        if !state.places.is_empty() {
            places.append(&mut state.places);
        } else if !state.owner.as_ref().is_some_and(|owner| owner.will_wake(cx.waker())) {
            state.owner = Some(cx.waker().clone());
        }
    }

    fn push(&self, place: usize) {
        let mut state = self.state();
        state.places.push(place);
        let owner = state.owner.take();
        drop(state);
        if let Some(owner) = owner {
            owner.wake();
        }
    }
}

/// A stream's place in the queue; its waker.
pub(super) struct Mark {
    place: usize,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Mark {
    pub(super) fn new(place: usize, ready: Arc<Ready>) -> Arc<Mark> {
        Arc::new(Mark { place, queued: AtomicBool::new(false), ready })
    }

    /// The stream has left the queue: what happens from now on queues it again.
    pub(super) fn taken(&self) {
        self.queued.store(false, Ordering::Release);
    }
}

impl Wake for Mark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.push(self.place);
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
        let (ready, count) = (Arc::new(Ready::default()), Arc::new(Count(0.into())));
        let owner = Waker::from(count.clone());
        let cx = Context::from_waker(&owner);
        let marks: Vec<_> = (0..3).map(|place| Mark::new(place, ready.clone())).collect();
        let mut places = Vec::new();
        ready.take(&mut places, &cx);
        for mark in &marks {
            mark.wake_by_ref();
            mark.wake_by_ref();
        }
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        ready.take(&mut places, &cx);
        assert_eq!(places, [0, 1, 2]);
        marks[1].wake_by_ref();
        marks[0].taken();
        marks[0].wake_by_ref();
        places.clear();
        ready.take(&mut places, &cx);
        assert_eq!(places, [0], "the others have not left the queue");
    }
}
