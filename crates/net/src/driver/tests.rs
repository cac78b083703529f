//! The driver's guarantees: order of events, wake-ups, stale keys.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;

use bytes::Bytes;

use super::*;
use crate::listener::{Bind, ListenOptions, Listening};
use crate::outgoing::Outgoing;
use crate::worker::block_on_local;

async fn send(stream: &Stream, bytes: &'static [u8]) {
    let mut outgoing = Outgoing::default();
    outgoing.push(Bytes::from_static(bytes));
    stream.send_all(&mut outgoing).await.unwrap();
}

/// True if the driver has no event although the event loop has polled its sockets. Counts turns of
/// the loop instead of milliseconds, so that a busy machine makes no difference.
async fn is_idle<T>(driver: &mut Driver<T>) -> bool {
    for _ in 0..16 {
        if poll_fn(|cx| Poll::Ready(driver.poll_ready(cx).is_ready())).await {
            return false;
        }
        tokio::task::yield_now().await;
    }
    true
}

#[test]
fn events_come_in_the_order_the_kernel_reported() {
    block_on_local(async {
        let mut driver = Driver::new();
        let mut ends = Vec::new();
        for number in 0..50 {
            let (ours, theirs) = Stream::pair().unwrap();
            driver.insert(ours, number);
            ends.push(theirs);
        }
        assert!(is_idle(&mut driver).await);
        let order: Vec<usize> = (0..50).map(|step| step * 17 % 50).collect();
        for number in &order {
            send(&ends[*number], b"x").await;
        }
        for expected in order {
            let (key, event) = driver.next_ready().await;
            assert!(matches!(event, Event::Ready(Interest::READ)));
            let (stream, number) = driver.stream(key).unwrap();
            assert_eq!(*number, expected);
            assert_eq!(&stream.try_receive().unwrap()[..], b"x");
        }
        assert!(is_idle(&mut driver).await);
    });
}

#[test]
fn a_source_is_queued_once() {
    block_on_local(async {
        let mut driver = Driver::new();
        let (ours, theirs) = Stream::pair().unwrap();
        let key = driver.insert(ours, ());
        assert!(is_idle(&mut driver).await);
        for _ in 0..3 {
            send(&theirs, b"again").await;
            tokio::task::yield_now().await; // the event loop reports it
            driver.slots[key.index as usize].waker.wake_by_ref();
        }
        assert_eq!(driver.next_ready().await.0, key);
        let (stream, ()) = driver.stream(key).unwrap();
        assert_eq!(stream.try_receive().unwrap().len(), 15);
        assert!(is_idle(&mut driver).await);
    });
}

#[test]
fn a_source_with_unread_bytes_is_queued_again_behind_the_others() {
    block_on_local(async {
        let mut driver = Driver::new();
        let (first, first_end) = Stream::pair().unwrap();
        let (second, second_end) = Stream::pair().unwrap();
        let (first, second) = (driver.insert(first, ()), driver.insert(second, ()));
        assert!(is_idle(&mut driver).await);
        send(&first_end, b"long").await;
        send(&second_end, b"short").await;
        assert_eq!(driver.next_ready().await.0, first);
        assert_eq!(&driver.stream(first).unwrap().0.try_receive_up_to(1).unwrap()[..], b"l");
        assert_eq!(driver.next_ready().await.0, second);
        driver.stream(second).unwrap().0.try_receive().unwrap();
        assert_eq!(driver.next_ready().await.0, first);
        assert_eq!(&driver.stream(first).unwrap().0.try_receive().unwrap()[..], b"ong");
        assert!(is_idle(&mut driver).await);
    });
}

#[test]
fn the_end_of_a_stream_is_an_event() {
    block_on_local(async {
        let mut driver = Driver::new();
        let (ours, theirs) = Stream::pair().unwrap();
        let key = driver.insert(ours, ());
        drop(theirs);
        assert_eq!(driver.next_ready().await.0, key);
        assert!(driver.stream(key).unwrap().0.try_receive().unwrap().is_empty());
    });
}

#[test]
fn a_stale_key_is_ignored() {
    block_on_local(async {
        let mut driver = Driver::new();
        let (ours, theirs) = Stream::pair().unwrap();
        let stale = driver.insert(ours, "old");
        assert!(is_idle(&mut driver).await);
        send(&theirs, b"unheard").await;
        driver.slots[0].waker.wake_by_ref(); // queued, and removed before its turn
        let old_waker = driver.slots[0].waker.clone();
        assert!(matches!(driver.remove(stale), Some((Source::Stream(_), "old"))));
        let (ours, theirs) = Stream::pair().unwrap();
        let fresh = driver.insert(ours, "new");
        assert_eq!(fresh.index, stale.index);
        old_waker.wake();
        assert!(is_idle(&mut driver).await);
        assert!(driver.stream(stale).is_none() && driver.data(stale).is_none());
        assert!(driver.remove(stale).is_none());
        driver.set_interest(stale, Interest::NONE);
        send(&theirs, b"heard").await;
        assert_eq!(driver.next_ready().await.0, fresh);
        assert_eq!(driver.keys().collect::<Vec<_>>(), [fresh]);
    });
}

#[test]
fn interest_decides_what_is_reported() {
    block_on_local(async {
        let mut driver = Driver::new();
        let (ours, theirs) = Stream::pair().unwrap();
        let key = driver.insert(ours, ());
        driver.set_interest(key, Interest::NONE);
        send(&theirs, b"later").await;
        assert!(is_idle(&mut driver).await);
        driver.set_interest(key, Interest::BOTH);
        let (_, event) = driver.next_ready().await;
        assert!(matches!(event, Event::Ready(Interest::BOTH)), "{event:?}");

        let stream = driver.stream(key).unwrap().0;
        stream.try_receive().unwrap();
        let mut outgoing = Outgoing::default();
        outgoing.push(Bytes::from(vec![0; 4 << 20]));
        while stream.try_send(&mut outgoing).is_ok() {}
        let left = outgoing.length();
        assert!(left > 0);
        driver.set_interest(key, Interest::WRITE);
        assert!(is_idle(&mut driver).await);
        while (theirs.try_receive()).is_ok() {}
        let (_, event) = driver.next_ready().await;
        assert!(matches!(event, Event::Ready(Interest::WRITE)), "{event:?}");
        driver.stream(key).unwrap().0.try_send(&mut outgoing).unwrap();
        assert!(outgoing.length() < left);
    });
}

#[test]
fn connections_and_bytes_share_one_queue() {
    block_on_local(async {
        let bind = Bind::Tcp("127.0.0.1:0".parse().unwrap());
        let listening = Listening::bind(&bind, 1, &ListenOptions::default()).unwrap();
        let Bind::Tcp(address) = *listening.local() else { panic!("TCP was requested") };
        let mut driver = Driver::new();
        let listener = listening.into_sockets().remove(0).adopt().unwrap();
        let listener_key = driver.listen(listener, ());
        let client = Stream::connect_tcp(address).await.unwrap();
        let (key, event) = driver.next_ready().await;
        let Event::Accepted(Ok(accepted)) = event else { panic!("{event:?}") };
        assert_eq!(key, listener_key);
        let accepted_key = driver.insert(accepted.stream, ());
        send(&client, b"hello").await;
        assert_eq!(driver.next_ready().await.0, accepted_key);
        driver.stream(accepted_key).unwrap().0.try_receive().unwrap();

        driver.set_interest(listener_key, Interest::NONE);
        let _second = Stream::connect_tcp(address).await.unwrap();
        assert!(is_idle(&mut driver).await);
        driver.set_interest(listener_key, Interest::READ);
        assert!(matches!(driver.next_ready().await.1, Event::Accepted(Ok(_))));
        assert!(matches!(driver.remove(listener_key), Some((Source::Listener(_), ()))));
    });
}

#[test]
fn a_busy_driver_does_not_starve_other_tasks() {
    block_on_local(async {
        let mut driver = Driver::new();
        let (ours, theirs) = Stream::pair().unwrap();
        driver.insert(ours, ());
        send(&theirs, b"never read").await;
        let turns = Rc::new(Cell::new(0));
        let counter = turns.clone();
        crate::task::spawn_local(async move {
            loop {
                counter.set(counter.get() + 1);
                tokio::task::yield_now().await;
            }
        });
        for _ in 0..10 * BATCH {
            driver.next_ready().await;
        }
        assert!(turns.get() >= 9, "{}", turns.get());
    });
}

#[test]
fn a_wake_from_another_thread_is_delivered() {
    block_on_local(async {
        let mut driver = Driver::new();
        let (ours, _theirs) = Stream::pair().unwrap();
        let key = driver.insert(ours, ());
        assert!(is_idle(&mut driver).await);
        let waker = driver.slots[key.index as usize].waker.clone();
        let thread = std::thread::spawn(move || waker.wake());
        assert_eq!(driver.next_ready().await.0, key);
        thread.join().unwrap();
    });
}
