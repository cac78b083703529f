//! Both sides of readiness, over real sockets: what is told, what is kept, who is woken.

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
use crate::timer::within;
use crate::worker::block_on_local;

/// For what must not happen.
const SHORT: Duration = Duration::from_millis(8);
/// For what must.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// The same tests of one side.
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
                is_ready(source, side, PATIENCE).await
            }

            async fn is_idle(source: &Source) -> bool {
                !is_ready(source, Side::Read, SHORT).await
            }

            #[test]
            fn readiness_is_told_kept_and_used_up() {
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
            fn what_is_assumed_holds_until_an_operation_says_otherwise() {
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
            fn an_end_is_told_once_and_stays() {
                block_on_local(async {
                    let (one, mut other) = connected();
                    let one = Source::new(one.into()).unwrap();
                    other.write_all(b"last").unwrap();
                    drop(other);
                    assert!(ready(&one, Side::Read).await);
                    let mut room = [0; 8];
                    assert_eq!(read(&one, &mut room).unwrap(), 4);
                    // As who knows that the read took all there was.
                    let blocked =
                        one.try_io(Side::Read, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                    assert!(blocked.is_err() && ready(&one, Side::Read).await);
                    assert_eq!(read(&one, &mut room).unwrap(), 0);
                });
            }

            #[test]
            fn a_reset_is_a_failure_and_an_end_is_none() {
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
                        let span = if resets { PATIENCE } else { SHORT };
                        assert_eq!(within(span, one.failed()).await.is_some(), resets);
                    }
                });
            }

            #[test]
            fn a_waiter_is_woken_once_for_each_wait_and_the_last_one_only() {
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
                        // Another source is told of later: by then this one has been.
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
            fn a_descriptor_that_left_may_come_back() {
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
            fn what_is_told_of_a_source_that_is_gone_reaches_nobody_else() {
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
            fn many_sources_are_all_told_of() {
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
fn where_tokio_tells_the_hive_has_nothing_to_watch() {
    let watch = super::portable::Watch;
    assert_eq!(watch.look(), 0);
    assert!(watch.poll_events(&mut Context::from_waker(Waker::noop())).is_pending());
}

tests!(epoll);
tests!(portable);
