//! Readers of a shared body hear of every piece and of its end, and its writer of its readers.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use loom::thread;

use crate::{BodyStream, Fault, FaultKind, Frame, Sleep};
use shared::{SharedBodyReader, SharedBodyWriter, shared_body};

#[allow(dead_code, unreachable_pub, reason = "a part of a crate as a module of this test")]
#[path = "../../crates/message/src/shared_body.rs"]
mod shared;

/// Reads to the end: the bytes, and the fault if there was one.
fn read(mut reader: SharedBodyReader) -> (Vec<u8>, Option<FaultKind>) {
    let (sleep, mut bytes) = (Sleep::new(), Vec::new());
    loop {
        match sleep.until(|cx| reader.poll_frame(cx)) {
            None => return (bytes, None),
            Some(Ok(Frame::Data(data))) => bytes.extend_from_slice(&data),
            Some(Ok(_)) => unreachable!("only data is written"),
            Some(Err(Fault(kind))) => return (bytes, Some(kind)),
        }
    }
}

/// Adds a piece to a body that is too long to be kept; false if it has no reader.
fn push_on(writer: &mut SharedBodyWriter, data: &'static [u8]) -> bool {
    let mut adding = pin!(writer.push_on(Frame::Data(Bytes::from_static(data))));
    Sleep::new().until(|cx| adding.as_mut().poll(cx))
}

#[test]
fn a_reader_that_has_caught_up_is_woken_for_pieces_and_the_end() {
    crate::check(|| {
        let (mut writer, body) = shared_body(1000, None);
        let reader = body.reader();
        thread::spawn(move || {
            assert!(writer.push(Bytes::from_static(b"ab")).is_ok());
            writer.finish(None);
        });
        assert_eq!(read(reader), (b"ab".to_vec(), None));
    });
}

#[test]
fn a_reader_learns_that_the_writer_is_gone() {
    crate::check(|| {
        let (mut writer, body) = shared_body(1000, None);
        let reader = body.reader();
        thread::spawn(move || {
            assert!(writer.push(Bytes::from_static(b"ab")).is_ok());
            drop(writer);
        });
        assert_eq!(read(reader), (b"ab".to_vec(), Some(FaultKind::SharedBodyDropped)));
    });
}

#[test]
fn two_readers_on_different_threads_get_the_same() {
    crate::check(|| {
        let (mut writer, body) = shared_body(1000, None);
        let (one, other) = (body.reader(), body.reader());
        let reading = thread::spawn(move || read(one));
        assert!(writer.push(Bytes::from_static(b"ab")).is_ok());
        writer.finish(None);
        assert_eq!(read(other), (b"ab".to_vec(), None));
        assert_eq!(reading.join().unwrap(), (b"ab".to_vec(), None));
    });
}

#[test]
fn a_writer_at_its_window_is_woken_for_the_slowest_reader() {
    crate::check(|| {
        let (mut writer, body) = shared_body(1000, None);
        // One piece at a time.
        writer.narrow(66);
        let reader = body.reader();
        let reading = thread::spawn(move || read(reader));
        assert!(push_on(&mut writer, b"ab") && push_on(&mut writer, b"cd"));
        writer.finish(None);
        assert_eq!(reading.join().unwrap(), (b"abcd".to_vec(), None));
    });
}

#[test]
fn a_writer_at_its_window_learns_that_the_last_reader_has_left() {
    crate::check(|| {
        let (mut writer, body) = shared_body(1000, None);
        writer.narrow(66);
        let reader = body.reader();
        let body = Arc::new(body);
        thread::spawn(move || drop(reader));
        while push_on(&mut writer, b"ab") {}
        drop(body);
    });
}
