//! The access log after its file was moved away: SIGUSR1 and SIGHUP open the path again, and no
//! line is lost on the way.

use crate::setup::answering;
use scenarios::{PATIENCE, Tidegate};
use std::path::Path;
use std::time::{Duration, Instant};

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

fn wait_for(path: &Path, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    while lines(path) < count {
        assert!(Instant::now() < deadline, "{} has {} lines", path.display(), lines(path));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(lines(path), count);
}

#[test]
fn both_signals_open_the_file_again() {
    let server = Tidegate::start(&answering("log: { access: { format: json, path: a.log } }"));
    let mut client = server.connect("web");
    let mut ask = |count| {
        for _ in 0..count {
            client.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
            assert_eq!(client.answer().status, 200);
        }
    };
    let log = server.path("a.log");
    ask(5);
    wait_for(&log, 5);
    for (number, signal) in ["USR1", "HUP"].into_iter().enumerate() {
        let moved = server.path(&format!("a.log.{number}"));
        std::fs::rename(&log, &moved).expect("a file");
        let had = lines(&moved);
        // Still the same file, by another name.
        ask(3);
        wait_for(&moved, had + 3);
        server.signal(signal);
        let deadline = Instant::now() + PATIENCE;
        while !log.exists() {
            assert!(Instant::now() < deadline, "SIG{signal} did not open it");
            std::thread::sleep(Duration::from_millis(5));
        }
        ask(4);
        wait_for(&log, 4);
        assert_eq!(lines(&moved), had + 3);
    }
}
