//! Tests of the writing thread: order, loss, reopening and what stderr gets.

use super::{LineReceiver, LogWriter, Output, Sink, WriterLoop};
use crate::limits::RING_LINES;
use crate::registry::Telemetry;
use std::fs;
use std::io::Read;
use std::sync::Arc;
use std::thread;

#[test]
fn lines_of_all_workers_arrive_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let writer = LogWriter::start("access", Sink::File(path.clone()), &Telemetry::new()).unwrap();
    thread::scope(|scope| {
        for worker in 0..3 {
            let ring = writer.ring();
            scope.spawn(move || {
                for i in 0..1_000 {
                    let mut line = ring.buffer();
                    line.extend_from_slice(format!("{worker} {i}").as_bytes());
                    ring.push(line);
                }
            });
        }
    });
    writer.flush();
    let text = fs::read_to_string(&path).unwrap();
    for worker in 0..3 {
        let own = text.lines().filter_map(|line| line.strip_prefix(&format!("{worker} ")));
        let numbers: Vec<usize> = own.map(|n| n.parse().unwrap()).collect();
        assert_eq!(numbers, (0..1_000).collect::<Vec<_>>());
    }
    writer.flush();
    assert_eq!(writer.shared.state().rings.len(), 0, "dropped rings are removed");
}

#[test]
fn dropping_writes_the_remaining_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let writer = LogWriter::start("access", Sink::File(path.clone()), &Telemetry::new()).unwrap();
    let ring = writer.ring();
    ring.push(b"last words".to_vec());
    drop(writer);
    assert_eq!(fs::read(&path).unwrap(), b"last words\n");
    ring.push(b"no reader".to_vec());
}

#[test]
fn a_rotated_file_is_not_written_after_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let (path, rotated) = (dir.path().join("a.log"), dir.path().join("a.log.1"));
    let writer = LogWriter::start("access", Sink::File(path.clone()), &Telemetry::new()).unwrap();
    let ring = writer.ring();
    ring.push(b"one".to_vec());
    writer.flush();
    fs::rename(&path, &rotated).unwrap();
    ring.push(b"two".to_vec());
    writer.reopen().unwrap();
    ring.push(b"three".to_vec());
    writer.flush();
    assert_eq!(fs::read(&rotated).unwrap(), b"one\ntwo\n");
    assert_eq!(fs::read(&path).unwrap(), b"three\n");
    let missing = Sink::File(dir.path().join("no/such/dir"));
    assert!(writer.retarget(missing).is_err());
    ring.push(b"four".to_vec());
    writer.flush();
    assert_eq!(fs::read(&path).unwrap(), b"three\nfour\n");
}

#[test]
fn others_get_the_lines_from_the_moment_they_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let writer = LogWriter::start("access", Sink::File(path.clone()), &Telemetry::new()).unwrap();
    let ring = writer.ring();
    ring.push(b"one".to_vec());
    let (sender, received) = std::sync::mpsc::channel();
    let copy = LineReceiver(Arc::new(move |lines: &[u8]| sender.send(lines.to_vec()).unwrap()));
    writer.copy_to(vec![copy]);
    ring.push(b"two".to_vec());
    writer.copy_to(Vec::new());
    ring.push(b"three".to_vec());
    writer.flush();
    assert_eq!(received.iter().collect::<Vec<_>>(), [b"two\n"]);
    assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\nthree\n");
}

#[test]
fn failed_writes_are_counted() {
    let telemetry = Telemetry::new();
    let sink = Sink::File("/dev/full".into());
    let writer = LogWriter::start("access", sink, &telemetry).unwrap();
    writer.ring().push(vec![b'x'; 10]);
    writer.flush();
    assert_eq!(writer.shared.failed.get(), 1);

    let dir = tempfile::tempdir().unwrap();
    let open = |path: std::path::PathBuf| Output::open(&Sink::File(path)).unwrap();
    let (shared, output) = (Arc::clone(&writer.shared), open("/dev/full".into()));
    let mut writer_loop = WriterLoop::new("access", shared, output);
    let write = |writer_loop: &mut WriterLoop| {
        writer_loop.batch.push(b'x');
        writer_loop.write();
        writer_loop.failing
    };
    assert!(write(&mut writer_loop) && write(&mut writer_loop));
    writer_loop.output = open(dir.path().join("access.log"));
    assert!(!write(&mut writer_loop), "recovery is reported");
}

#[test]
fn no_caller_waits_for_a_blocked_destination() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Held open for reading, so that opening it does not block, and never read.
    let _reader = fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let writer = LogWriter::start("access", Sink::File(fifo), &Telemetry::new()).unwrap();
    writer.ring().push(vec![b'x'; 4 << 20]);
    writer.flush();
    drop(writer);
}

#[test]
fn a_fifo_is_opened_before_it_has_a_reader() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (opened, is_opened) = std::sync::mpsc::channel();
    let sink = Sink::File(fifo.clone());
    thread::spawn(move || {
        sink.check().unwrap();
        opened.send(LogWriter::start("access", sink, &Telemetry::new()).unwrap()).unwrap();
    });
    let writer = is_opened.recv_timeout(std::time::Duration::from_secs(30)).expect("it waits");
    writer.ring().push(b"a line".to_vec());
    let mut line = [0; 7];
    fs::File::open(&fifo).unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"a line\n");
}

#[test]
fn many_more_lines_than_a_ring_holds_are_written_or_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let writer = LogWriter::start("access", Sink::File(path.clone()), &Telemetry::new()).unwrap();
    let ring = writer.ring();
    let pushed = RING_LINES * 4;
    for _ in 0..pushed {
        ring.push(b"x".to_vec());
    }
    writer.flush();
    let written = fs::read(&path).unwrap().len() / 2;
    assert_eq!(written + ring.dropped() as usize, pushed);
}
