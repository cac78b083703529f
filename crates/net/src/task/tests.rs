//! Tasks: order, wakes from all threads, every way to end, fairness, deferred bytes.

mod deferred;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use tokio::task::yield_now;

use super::*;
use crate::timer::within;
use crate::worker::block_on_local;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the waker of the calling task.
async fn own_waker() -> Waker {
    poll_fn(|cx| Poll::Ready(cx.waker().clone())).await
}

/// Counts its polls and exposes its waker.
struct CountedTask {
    polls: Rc<Cell<usize>>,
    waker: Rc<RefCell<Option<Waker>>>,
}

impl CountedTask {
    fn spawn() -> (CountedTask, JoinHandle<()>) {
        let watched = CountedTask { polls: Rc::default(), waker: Rc::default() };
        let (polls, waker) = (watched.polls.clone(), watched.waker.clone());
        let task = spawn_local(poll_fn(move |cx| {
            polls.set(polls.get() + 1);
            *waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        }));
        (watched, task)
    }

    fn waker(&self) -> Waker {
        self.waker.borrow().clone().unwrap()
    }
}

/// Runs everything that is ready.
async fn run_ready_tasks() {
    for _ in 0..3 {
        yield_now().await;
    }
}

#[test]
fn tasks_run_in_the_order_in_which_they_were_woken() {
    block_on_local(async {
        let order = Rc::new(RefCell::new(Vec::new()));
        let wakers = Rc::new(RefCell::new(Vec::new()));
        for number in 0..5 {
            let (order, wakers) = (order.clone(), wakers.clone());
            spawn_local(async move {
                let waker = own_waker().await;
                wakers.borrow_mut().push(waker);
                order.borrow_mut().push(number);
                let mut first = true;
                poll_fn(
                    |_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) },
                )
                .await;
                order.borrow_mut().push(number);
            });
        }
        run_ready_tasks().await;
        assert_eq!(order.take(), [0, 1, 2, 3, 4]);
        for number in [3, 1, 3, 4] {
            wakers.borrow()[number].wake_by_ref();
        }
        run_ready_tasks().await;
        assert_eq!(order.take(), [3, 1, 4]);
    });
}

#[test]
fn a_task_may_spawn_another_and_wait_for_its_result() {
    block_on_local(async {
        let outer = spawn_local(async {
            let inner = spawn_local(async {
                yield_now().await;
                "done"
            });
            assert!(!inner.is_finished());
            inner.await.unwrap()
        });
        assert_eq!(outer.await, Ok("done"));
    });
}

#[test]
fn a_wake_during_its_own_poll_is_one_more_poll() {
    block_on_local(async {
        let polls = Rc::new(Cell::new(0));
        let counter = polls.clone();
        spawn_local(poll_fn(move |cx| {
            counter.set(counter.get() + 1);
            if counter.get() == 1 {
                cx.waker().wake_by_ref();
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        run_ready_tasks().await;
        assert_eq!(polls.get(), 2);
    });
}

#[test]
fn wakes_from_another_thread_are_delivered() {
    block_on_local(async {
        for _ in 0..200 {
            let (watched, task) = CountedTask::spawn();
            run_ready_tasks().await;
            let before = watched.polls.get();
            let waker = watched.waker();
            let thread = std::thread::spawn(move || waker.wake());
            let heard = poll_fn(|cx| {
                cx.waker().wake_by_ref();
                if watched.polls.get() > before { Poll::Ready(()) } else { Poll::Pending }
            });
            within(TIMEOUT, heard).await.unwrap();
            thread.join().unwrap();
            task.abort();
        }
    });
}

#[test]
fn wakers_of_several_workers_and_of_others_are_woken_together() {
    let (send, receive) = mpsc::channel();
    let woken = |tasks: &[CountedTask]| tasks.iter().all(|task| task.polls.get() > 1);
    let workers = [send.clone(), send].map(|send| {
        std::thread::spawn(move || {
            block_on_local(async move {
                let (tasks, _handles): (Vec<_>, Vec<_>) =
                    (0..3).map(|_| CountedTask::spawn()).unzip();
                run_ready_tasks().await;
                tasks.iter().for_each(|task| send.send(task.waker()).unwrap());
                drop(send);
                let heard = poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    if woken(&tasks) { Poll::Ready(()) } else { Poll::Pending }
                });
                within(TIMEOUT, heard).await.unwrap();
            });
        })
    });
    let mut wakers: Vec<_> = receive.iter().collect();
    let other = Arc::new(CountedWake::default());
    wakers.insert(2, Waker::from(other.clone()));
    wake_all(&mut wakers);
    assert!(wakers.is_empty());
    assert_eq!(other.0.load(Ordering::SeqCst), 1);
    workers.into_iter().for_each(|worker| worker.join().unwrap());
}

/// Counts its wakes.
#[derive(Default)]
struct CountedWake(AtomicUsize);

impl Wake for CountedWake {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Only the wake can end the sleep of this worker.
#[test]
fn a_wake_from_another_thread_ends_the_sleep_of_the_worker() {
    block_on_local(async {
        for _ in 0..50 {
            let (send, received) = tokio::sync::oneshot::channel();
            let task = spawn_local(received);
            run_ready_tasks().await;
            let thread = std::thread::spawn(move || send.send(7).unwrap());
            assert_eq!(task.await.unwrap(), Ok(7));
            thread.join().unwrap();
        }
    });
}

#[test]
fn concurrent_wakes_from_many_threads_arrive() {
    block_on_local(async {
        let (tasks, ends): (Vec<_>, Vec<_>) = (0..8)
            .map(|_| {
                let (send, mut receive) = tokio::sync::mpsc::channel(16);
                let task = spawn_local(async move {
                    let mut sum = 0;
                    while let Some(number) = receive.recv().await {
                        sum += number;
                    }
                    sum
                });
                (task, send)
            })
            .unzip();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let ends = ends.clone();
                std::thread::spawn(move || {
                    for number in 0..100u32 {
                        ends.iter().for_each(|end| end.blocking_send(number).unwrap());
                    }
                })
            })
            .collect();
        drop(ends);
        for task in tasks {
            assert_eq!(within(TIMEOUT, task).await.unwrap(), Ok(4 * 99 * 100 / 2));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_late_waker_wakes_no_other_task() {
    let late = block_on_local(async {
        let (old, task) = CountedTask::spawn();
        run_ready_tasks().await;
        let stale = old.waker();
        task.abort();
        assert_eq!(task.await, Err(JoinError::Cancelled));
        let (new, task) = CountedTask::spawn();
        run_ready_tasks().await;
        // The new task uses the same slot.
        assert_eq!(task.abort_handle().key.slot(), 0);
        stale.wake_by_ref();
        std::thread::spawn(move || stale.wake()).join().unwrap();
        run_ready_tasks().await;
        assert_eq!(new.polls.get(), 1);
        new.waker()
    });
    late.wake_by_ref();
    block_on_local(async {
        spawn_local(async {}).await.unwrap();
        late.wake_by_ref();
        std::thread::spawn(move || late.wake()).join().unwrap();
        run_ready_tasks().await;
    });
}

/// Reports the thread on which its destructor ran.
struct DropProbe(mpsc::Sender<std::thread::ThreadId>);

impl Drop for DropProbe {
    fn drop(&mut self) {
        let _ = self.0.send(std::thread::current().id());
    }
}

#[test]
fn a_panicking_task_affects_no_other() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("a bug in a destructor");
        }
    }
    block_on_local(async {
        let neighbour = spawn_local(async {
            run_ready_tasks().await;
            "alive"
        });
        let bad = spawn_local(async {
            yield_now().await;
            panic!("a bug");
        });
        let worse = spawn_local(async {
            let _bad = Bad;
            pending::<()>().await;
        });
        let (grave, dropped) = mpsc::channel();
        let holder = spawn_local(async move {
            let _grave = DropProbe(grave);
            panic!("a bug with something in hand");
        });
        assert_eq!(bad.await, Err(JoinError::Panicked));
        worse.abort();
        assert_eq!(worse.await, Err(JoinError::Cancelled));
        assert_eq!(holder.await, Err(JoinError::Panicked));
        assert_eq!(dropped.try_recv(), Ok(std::thread::current().id()));
        assert_eq!(neighbour.await, Ok("alive"));
    });
}

#[test]
fn a_cancelled_task_is_dropped_at_its_turn() {
    block_on_local(async {
        let (grave, dropped) = mpsc::channel();
        let spawn = |grave| {
            let grave = DropProbe(grave);
            spawn_local(async move {
                let _grave = grave;
                pending::<()>().await;
            })
        };
        let task = spawn(grave.clone());
        run_ready_tasks().await;
        task.abort();
        assert!(dropped.try_recv().is_err(), "dropped within the call");
        assert_eq!(task.await, Err(JoinError::Cancelled));
        assert!(dropped.try_recv().is_ok());

        let never_run = spawn(grave.clone());
        never_run.abort();
        assert_eq!(never_run.await, Err(JoinError::Cancelled));
        assert!(dropped.try_recv().is_ok());

        let elsewhere = spawn(grave);
        run_ready_tasks().await;
        let handle = elsewhere.abort_handle();
        std::thread::spawn(move || handle.abort()).join().unwrap();
        assert_eq!(elsewhere.await, Err(JoinError::Cancelled));
        assert_eq!(dropped.try_recv(), Ok(std::thread::current().id()));
    });
}

#[test]
fn a_task_may_cancel_itself_and_a_late_cancellation_has_no_effect() {
    block_on_local(async {
        let own: Rc<Cell<Option<AbortHandle>>> = Rc::default();
        let known = own.clone();
        let task = spawn_local(async move {
            yield_now().await;
            known.get().unwrap().abort();
            pending::<()>().await;
        });
        own.set(Some(task.abort_handle()));
        assert_eq!(task.await, Err(JoinError::Cancelled));
        let next = spawn_local(async { 1 });
        let late = own.get().unwrap();
        assert_eq!(next.abort_handle().key.slot(), late.key.slot());
        late.abort();
        std::thread::spawn(move || late.abort()).join().unwrap();
        assert_eq!(next.await, Ok(1));
    });
}

#[test]
fn tasks_end_with_their_event_loop_on_its_thread() {
    struct Busy(DropProbe);
    impl Drop for Busy {
        fn drop(&mut self) {
            // A destructor that spawns during shutdown.
            let refused = spawn_local(async {});
            assert!(refused.is_finished());
            refused.abort();
            let _ = crate::Stream::pair();
            let _ = &self.0;
        }
    }
    let (grave, dropped) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut handle = None;
        block_on_local(async {
            for _ in 0..3 {
                let busy = Busy(DropProbe(grave.clone()));
                spawn_local(async move {
                    let _busy = busy;
                    pending::<()>().await;
                });
            }
            run_ready_tasks().await;
            handle = Some(spawn_local(pending::<()>()));
        });
        assert!(handle.unwrap().is_finished());
        std::thread::current().id()
    });
    let id = thread.join().unwrap();
    assert_eq!(dropped.iter().collect::<Vec<_>>(), [id; 3]);
}

#[test]
fn tokio_channels_and_timers_work_in_tasks() {
    block_on_local(async {
        let (send, mut receive) = tokio::sync::mpsc::channel(1);
        let producer = spawn_local(async move {
            for number in 0..1000 {
                send.send(number).await.unwrap();
            }
        });
        let consumer = spawn_local(async move {
            let mut sum = 0;
            while let Some(number) = receive.recv().await {
                sum += number;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            sum + crate::blocking(|| 1).await.unwrap()
        });
        producer.await.unwrap();
        assert_eq!(consumer.await, Ok(499_501));
    });
}

#[test]
fn tasks_that_are_always_ready_starve_neither_sockets_nor_timers() {
    block_on_local(async {
        for _ in 0..2 * crate::worker::POLLS_PER_TURN {
            spawn_local(poll_fn(|cx| {
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            }));
        }
        let (one, other) = crate::Stream::pair().unwrap();
        let sockets = spawn_local(async move {
            for _ in 0..5 {
                one.try_send_slice(b"x").unwrap_or_default();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            one.finish();
            while !other.receive().await.unwrap().is_empty() {}
        });
        within(TIMEOUT, sockets).await.unwrap().unwrap();
    });
}

#[test]
fn a_peer_that_is_always_faster_does_not_starve_other_tasks() {
    use std::io::Write;
    block_on_local(async {
        let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        let one = crate::Stream::from_descriptor(one.into(), false).unwrap();
        let room = vec![7; 32 * 1024];
        other.write_all(&room).unwrap();
        let longest = spawn_local(async move {
            let (mut turn, mut turns) = (0, Vec::new());
            poll_fn(|cx| {
                turns.push(std::mem::take(&mut turn));
                while let Poll::Ready(chunk) = one.poll_receive(cx) {
                    let length = chunk.unwrap().len();
                    other.write_all(&room[..length]).unwrap();
                    turn += length;
                    if turn > 64 << 20 {
                        break;
                    }
                }
                if turns.len() < 5 { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            turns.into_iter().max().unwrap()
        });
        let longest = within(TIMEOUT, longest).await.unwrap().unwrap();
        assert!((1 << 20..8 << 20).contains(&longest), "{longest}");
    });
}
