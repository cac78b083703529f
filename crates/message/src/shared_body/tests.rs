//! What writers and readers of a shared body are promised.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use net::worker::block_on_local;

use crate::{Body, BodyStream, Fault, Frame, Headers, SharedBodyReader, TooLong, shared_body};

async fn text(mut body: Body) -> Result<String, Fault> {
    let whole = body.collect(1 << 20).await?;
    Ok(String::from_utf8_lossy(&whole).into_owned())
}

fn piece(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn every_reader_gets_the_whole_from_the_beginning() {
    block_on_local(async {
        let (mut writer, shared) = shared_body(1 << 20, None);
        writer.push(piece("one ")).unwrap();
        let early = net::task::spawn_local(text(shared.body()));
        tokio::task::yield_now().await;
        writer.push(piece("two ")).unwrap();
        let late = net::task::spawn_local(text(shared.body()));
        tokio::task::yield_now().await;
        writer.push(piece("three")).unwrap();
        assert_eq!((shared.length(), shared.ended().is_none()), (13, true));
        writer.finish(None);
        for reader in [early, late] {
            assert_eq!(reader.await.unwrap().unwrap(), "one two three");
        }
        assert_eq!(shared.body().length(), Some(13), "an ended body has a length");
        assert_eq!(text(shared.body()).await.unwrap(), "one two three");
    });
}

#[test]
fn readers_on_other_workers_are_woken_when_it_grows() {
    let (mut writer, shared) = shared_body(1 << 20, None);
    let (heard, hears) = mpsc::channel();
    let readers: Vec<_> = (0..2)
        .map(|index| {
            let (shared, heard) = (shared.clone(), heard.clone());
            let work = move || async move {
                let mut reader = shared.reader();
                while let Some(frame) = std::future::poll_fn(|cx| reader.poll_frame(cx)).await {
                    let Ok(Frame::Data(data)) = frame else { panic!("data was expected") };
                    heard.send(data).unwrap();
                }
            };
            net::worker::spawn(format!("reader-{index}"), None, work).unwrap()
        })
        .collect();
    for text in ["a", "b", "c"] {
        writer.push(piece(text)).unwrap();
        // Both have heard it before there is more: they were woken for it, not for the next.
        for _ in 0..readers.len() {
            assert_eq!(hears.recv_timeout(Duration::from_secs(10)).unwrap(), text);
        }
    }
    writer.finish(None);
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
fn trailers_come_last_and_a_known_length_is_reported() {
    block_on_local(async {
        let (mut writer, shared) = shared_body(1 << 20, Some(4));
        let mut trailers = Headers::new();
        trailers.append("x-sum", "1");
        writer.push(piece("text")).unwrap();
        writer.finish(Some(trailers));
        let mut body = shared.body();
        assert_eq!(body.length(), Some(4));
        assert!(matches!(body.frame().await, Some(Ok(Frame::Data(_)))));
        assert_eq!(body.length(), Some(0));
        let Some(Ok(Frame::Trailers(fields))) = body.frame().await else { panic!("trailers") };
        assert_eq!(fields.get("x-sum"), Some(&b"1"[..]));
        assert!(body.frame().await.is_none());
    });
}

#[test]
fn the_bound_counts_pieces_as_well_as_bytes() {
    let (mut writer, shared) = shared_body(1000, None);
    writer.push(Bytes::from(vec![0; 500])).unwrap();
    assert_eq!(writer.push(Bytes::from(vec![0; 500])), Err(TooLong));
    let mut taken = 0;
    while writer.push(piece("x")).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, (1000 - 564) / 65);
    assert_eq!(shared.length(), 500 + taken);
}

#[test]
fn a_failure_comes_after_what_there_is() {
    block_on_local(async {
        for dropped in [false, true] {
            let (mut writer, shared) = shared_body(1000, None);
            writer.push(piece("some")).unwrap();
            let slug = if dropped {
                drop(writer);
                "growing_dropped"
            } else {
                writer.fail(Fault::internal("on purpose"));
                "internal_error"
            };
            let mut body = shared.body();
            assert!(matches!(body.frame().await, Some(Ok(Frame::Data(data))) if data == "some"));
            assert_eq!(body.frame().await.unwrap().unwrap_err().slug(), slug);
            assert!(body.frame().await.is_none());
            assert_eq!(shared.ended().unwrap().unwrap_err().slug(), slug);
        }
    });
}

#[test]
fn filling_stops_without_readers_and_at_the_bound() {
    block_on_local(async {
        let (writer, handle) = shared_body(1000, None);
        assert!(!writer.is_abandoned());
        let reader = handle.body();
        drop(handle);
        assert!(!writer.is_abandoned());
        drop(reader);
        let stopped = writer.fill(&mut Body::from("text")).await.unwrap_err();
        assert_eq!(stopped.slug(), "client_gone");

        let (writer, handle) = shared_body(1000, None);
        let stopped = writer.fill(&mut Body::from(Bytes::from(vec![0; 2000]))).await.unwrap_err();
        assert_eq!(stopped.slug(), "growing_full");
        assert_eq!(text(handle.body()).await.unwrap_err().slug(), "growing_full");
    });
}

#[test]
fn a_reader_that_leaves_leaves_no_waker_behind() {
    block_on_local(async {
        let (writer, shared) = shared_body(1000, None);
        let held = Rc::new(());
        let task = {
            let (held, mut body) = (held.clone(), shared.body());
            net::task::spawn_local(async move {
                body.frame().await;
                drop(held);
            })
        };
        tokio::task::yield_now().await;
        task.abort();
        assert_eq!(task.await, Err(net::task::JoinError::Cancelled));
        assert_eq!(Rc::strong_count(&held), 1);
        assert_eq!(writer.readers(), 0);
        drop(writer);
    });
}

#[test]
fn a_body_too_long_to_be_stored_continues_at_the_pace_of_the_slowest() {
    block_on_local(async {
        let (mut writer, shared) = shared_body(1000, None);
        let (mut quick, mut slow) = (shared.join().unwrap(), shared.join().unwrap());
        writer.push(Bytes::from(vec![1; 900])).unwrap();
        assert_eq!(writer.push(Bytes::from(vec![2; 900])), Err(TooLong));
        let writing = tokio::task::spawn_local(async move {
            assert!(writer.push_on(Frame::Data(Bytes::from(vec![2; 900]))).await);
            assert!(writer.push_on(Frame::Data(Bytes::from(vec![3; 900]))).await);
            writer.finish(None);
        });
        let first =
            async |reader: &mut SharedBodyReader| match poll_fn(|cx| reader.poll_frame(cx)).await {
                Some(Ok(Frame::Data(data))) => data[0],
                _ => panic!("a piece was expected"),
            };
        assert_eq!(first(&mut quick).await, 1);
        tokio::task::yield_now().await;
        assert_eq!(shared.length(), 900, "the slow one has not read it");
        assert!(shared.join().is_none(), "no reader joins a window");
        assert_eq!(first(&mut slow).await, 1);
        for piece in 2..=3 {
            assert_eq!((first(&mut quick).await, first(&mut slow).await), (piece, piece));
        }
        writing.await.unwrap();
        for reader in [&mut quick, &mut slow] {
            assert!(poll_fn(|cx| reader.poll_frame(cx)).await.is_none());
        }
        assert!(shared.complete_frames().is_none());
        let late = text(shared.body()).await.unwrap_err();
        assert_eq!(late.slug(), "growing_late");
    });
}

#[test]
fn a_window_is_notified_when_the_last_reader_leaves() {
    block_on_local(async {
        let (mut writer, shared) = shared_body(100, None);
        let reader = shared.join().unwrap();
        writer.push(piece("some")).unwrap();
        let writing = tokio::task::spawn_local(async move {
            writer.push_on(Frame::Data(Bytes::from(vec![0; 200]))).await
        });
        tokio::task::yield_now().await;
        drop(reader);
        assert!(!writing.await.unwrap());
        assert_eq!(shared.ended().unwrap().unwrap_err().slug(), "growing_dropped");
    });
}
