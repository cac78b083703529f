//! Both implementations of readiness over real sockets: what is reported, what is remembered, which
//! task is woken.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use socket2::SockRef;

use super::Side;
use crate::manual_time::idle;
use crate::timer::within;
use crate::worker::block_on_local;

/// Deadline for an event that must come.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn connected() -> (UnixStream, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    (one, other)
}

/// The same tests for each implementation.
macro_rules! tests {
    ($side:ident) => {
        mod $side {
            use super::*;

            type Source = crate::readiness::$side::Source;

            fn read(source: &Source, room: &mut [u8]) -> io::Result<usize> {
                let copy = source.as_fd().try_clone_to_owned().unwrap();
                source.try_io(Side::Read, || UnixStream::from(copy).read(room))
            }

            async fn is_ready(source: &Source, side: Side, span: Duration) -> bool {
                crate::clock::refresh();
                within(span, poll_fn(|cx| source.poll_ready(side, cx))).await.is_some()
            }

            async fn ready(source: &Source, side: Side) -> bool {
                is_ready(source, side, TIMEOUT).await
            }

            async fn is_idle(source: &Source) -> bool {
                idle().await;
                !is_ready(source, Side::Read, Duration::ZERO).await
            }

            #[test]
            fn readiness_is_reported_remembered_and_consumed() {
                block_on_local(async {
                    let (one, mut other) = connected();
                    let one = Source::new(one.into()).unwrap();
                    let mut tried = false;
                    let early = one.try_io(Side::Read, || {
                        tried = true;
                        Ok(())
                    });
                    assert_eq!(early.unwrap_err().kind(), io::ErrorKind::WouldBlock);
                    assert!(!tried && is_idle(&one).await);
                    assert!(ready(&one, Side::Write).await);
                    other.write_all(b"abc").unwrap();
                    assert!(ready(&one, Side::Read).await);
                    let mut room = [0; 2];
                    assert_eq!(read(&one, &mut room).unwrap(), 2);
                    assert!(ready(&one, Side::Read).await);
                    assert_eq!(read(&one, &mut room).unwrap(), 1);
                    let none = read(&one, &mut room).unwrap_err();
                    assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
                    assert!(is_idle(&one).await);
                    assert!(ready(&one, Side::Write).await);
                });
            }

            #[test]
            fn assumed_readiness_holds_until_would_block() {
                block_on_local(async {
                    let (one, mut other) = connected();
                    let sides = [Side::Read, Side::Write];
                    let one = Source::assuming(&sides, one.into()).unwrap();
                    for side in sides {
                        assert!(one.try_io(side, || Ok(())).is_ok());
                    }
                    let none = read(&one, &mut [0]).unwrap_err();
                    assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
                    assert!(is_idle(&one).await);
                    assert!(one.try_io(Side::Write, || Ok(())).is_ok());
                    other.write_all(b"x").unwrap();
                    assert!(ready(&one, Side::Read).await);
                });
            }

            #[test]
            fn an_end_is_reported_once_and_stays() {
                block_on_local(async {
                    let (one, mut other) = connected();
                    let one = Source::new(one.into()).unwrap();
                    other.write_all(b"last").unwrap();
                    drop(other);
                    assert!(ready(&one, Side::Read).await);
                    let mut room = [0; 8];
                    assert_eq!(read(&one, &mut room).unwrap(), 4);
                    // Acts as a caller that knows that its read has emptied the socket.
                    let blocked =
                        one.try_io(Side::Read, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                    assert!(blocked.is_err() && ready(&one, Side::Read).await);
                    assert_eq!(read(&one, &mut room).unwrap(), 0);
                });
            }

            #[test]
            fn a_reset_is_a_failure_and_an_end_is_not() {
                block_on_local(async {
                    for resets in [false, true] {
                        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                        let (other, _) = listener.accept().unwrap();
                        one.set_nonblocking(true).unwrap();
                        let number = one.as_raw_fd();
                        let one = Source::new(one.into()).unwrap();
                        assert_eq!(one.raw(), number);
                        if resets {
                            SockRef::from(&other).set_linger(Some(Duration::ZERO)).unwrap();
                        }
                        drop(other);
                        assert!(ready(&one, Side::Read).await);
                        crate::clock::refresh();
                        if resets {
                            assert!(within(TIMEOUT, one.failed()).await.is_some());
                        } else {
                            idle().await;
                            assert!(within(Duration::ZERO, one.failed()).await.is_none());
                        }
                    }
                });
            }

            #[test]
            fn only_the_last_waiter_is_woken_once_per_wait() {
                block_on_local(async {
                    let (one, mut other) = connected();
                    let one = Source::new(one.into()).unwrap();
                    assert!(is_idle(&one).await);
                    let counters = [Arc::new(Counter::default()), Arc::default()];
                    for counter in &counters {
                        let waker = Waker::from(counter.clone());
                        let polled = one.poll_ready(Side::Read, &mut Context::from_waker(&waker));
                        assert!(polled.is_pending());
                    }
                    for _ in 0..3 {
                        other.write_all(b"x").unwrap();
                        // Another source is reported later: by then this one has been.
                        let (later, mut end) = connected();
                        let later = Source::new(later.into()).unwrap();
                        end.write_all(b"x").unwrap();
                        assert!(ready(&later, Side::Read).await);
                    }
                    let woken =
                        counters.each_ref().map(|counter| counter.0.load(Ordering::Relaxed));
                    assert_eq!(woken, [0, 1]);
                });
            }

            #[test]
            fn a_removed_descriptor_may_be_registered_again() {
                block_on_local(async {
                    let (one, mut other) = connected();
                    let one = Source::new(one.into()).unwrap();
                    assert!(is_idle(&one).await);
                    let one = Source::shared(one.into_descriptor()).unwrap();
                    let copy = one.as_fd().try_clone_to_owned().unwrap();
                    drop(one);
                    let one = Source::new(copy).unwrap();
                    assert!(is_idle(&one).await);
                    other.write_all(b"x").unwrap();
                    assert!(ready(&one, Side::Read).await);
                });
            }

            #[test]
            fn an_event_of_a_removed_source_reaches_no_other_source() {
                block_on_local(async {
                    let (gone, mut end) = connected();
                    let copy = gone.try_clone().unwrap();
                    drop(Source::new(gone.into()).unwrap());
                    let (one, _other) = connected();
                    let one = Source::new(one.into()).unwrap();
                    end.write_all(b"x").unwrap();
                    drop(end);
                    assert!(is_idle(&one).await);
                    drop(copy);
                });
            }

            #[test]
            fn many_sources_are_all_reported() {
                block_on_local(async {
                    let mut sources = Vec::new();
                    for _ in 0..300 {
                        let (one, other) = connected();
                        sources.push((Source::new(one.into()).unwrap(), other));
                    }
                    for (_, other) in &mut sources {
                        other.write_all(b"x").unwrap();
                    }
                    for (one, _) in &sources {
                        assert!(ready(one, Side::Read).await);
                    }
                });
            }

            #[test]
            fn a_source_may_outlive_its_event_loop() {
                let (one, mut other) = connected();
                let one = block_on_local(async { Source::new(one.into()).unwrap() });
                other.write_all(b"x").unwrap();
                block_on_local(async { tokio::task::yield_now().await });
                drop(one.into_descriptor());
            }
        }
    };
}

#[test]
fn with_tokio_readiness_the_executor_has_nothing_to_poll() {
    let watch = super::portable::Watch;
    assert_eq!(watch.poll_now(), 0);
    assert!(watch.poll_events(&mut Context::from_waker(Waker::noop())).is_pending());
}

tests!(epoll);
tests!(portable);
