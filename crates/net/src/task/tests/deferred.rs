//! Deferred bytes: when they are sent, how many may wait, what follows if they were not sent.

use super::*;

/// Records what it is given, and takes all of it unless told otherwise.
struct Sink {
    sent: Rc<RefCell<Vec<String>>>,
    takes: bool,
}

impl DeferredSender for Sink {
    fn send(&self, bytes: &[u8]) -> bool {
        self.sent.borrow_mut().push(String::from_utf8_lossy(bytes).into_owned());
        self.takes
    }
}

/// Spawns a task that defers its name whenever it is woken.
fn spawn_deferring(name: &'static str, sent: &Rc<RefCell<Vec<String>>>) -> Rc<RefCell<Waker>> {
    let waker = Rc::new(RefCell::new(Waker::noop().clone()));
    let (kept, sink) = (waker.clone(), Rc::new(Sink { sent: sent.clone(), takes: true }));
    spawn_local(poll_fn(move |cx| {
        *kept.borrow_mut() = cx.waker().clone();
        defer(sink.clone(), name.len(), |room| room.extend_from_slice(name.as_bytes()));
        Poll::<()>::Pending
    }));
    waker
}

#[test]
fn deferred_bytes_are_sent_in_order_after_the_ready_tasks() {
    block_on_local(async {
        let sent = Rc::new(RefCell::new(Vec::new()));
        let wakers: Vec<_> = ["a", "b"].map(|name| spawn_deferring(name, &sent)).into();
        let before = Rc::new(Cell::new(usize::MAX));
        let (noted, seen, kept) = (before.clone(), sent.clone(), wakers[1].clone());
        // Defers something in its first poll only.
        let mut first = true;
        let (sink, last) =
            (Rc::new(Sink { sent: sent.clone(), takes: true }), Rc::new(RefCell::new(None)));
        let own = last.clone();
        spawn_local(poll_fn(move |cx| {
            noted.set(seen.borrow().len());
            *own.borrow_mut() = Some(cx.waker().clone());
            if std::mem::take(&mut first) {
                defer(sink.clone(), 1, |room| room.extend_from_slice(b"c"));
            }
            Poll::<()>::Pending
        }));
        run_ready_tasks().await;
        assert_eq!(before.get(), 2, "deferred bytes are sent before a new task runs");
        assert_eq!(sent.take(), ["a", "b", "c"]);

        // Now all three are known to defer, so nothing is sent before the last of them has run.
        wakers[0].borrow().wake_by_ref();
        kept.borrow().wake_by_ref();
        last.borrow().as_ref().unwrap().wake_by_ref();
        run_ready_tasks().await;
        assert_eq!(before.get(), 0);
        assert_eq!(sent.take(), ["a", "b"]);

        // The last one did not defer this time.
        wakers[0].borrow().wake_by_ref();
        last.borrow().as_ref().unwrap().wake_by_ref();
        run_ready_tasks().await;
        assert_eq!(before.get(), 1);
    });
}

#[test]
fn deferred_pieces_and_bytes_are_bounded() {
    block_on_local(async {
        let sent = Rc::new(RefCell::new(Vec::new()));
        let seen = sent.clone();
        let task = spawn_local(async move {
            assert!(may_defer());
            let sink = Rc::new(Sink { sent: seen.clone(), takes: true });
            for _ in 0..63 {
                defer(sink.clone(), 1, |room| room.extend_from_slice(b"x"));
            }
            assert_eq!(seen.borrow().len(), 0);
            defer(sink.clone(), 1, |room| room.extend_from_slice(b"x"));
            assert_eq!(seen.take().len(), 64);
            defer(sink.clone(), 40_000, |room| room.extend_from_slice(&[b'x'; 40_000]));
            assert_eq!(seen.take().len(), 1);
            defer(sink.clone(), 1, |room| room.extend_from_slice(b"y"));
            send_deferred();
            assert_eq!(seen.take(), ["y"]);
        });
        assert_eq!(task.await, Ok(()));
        assert!(!may_defer(), "the main future is not a task of the worker");
        send_deferred();
    });
}

#[test]
fn a_task_whose_bytes_were_not_sent_is_woken() {
    block_on_local(async {
        let (polls, sent) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
        let (counter, sink) = (polls.clone(), Rc::new(Sink { sent: sent.clone(), takes: false }));
        spawn_local(poll_fn(move |_| {
            counter.set(counter.get() + 1);
            if counter.get() == 1 {
                defer(sink.clone(), 1, |room| room.extend_from_slice(b"x"));
            }
            Poll::<()>::Pending
        }));
        run_ready_tasks().await;
        assert_eq!((polls.get(), sent.take()), (2, vec!["x".to_owned()]));
    });
}
