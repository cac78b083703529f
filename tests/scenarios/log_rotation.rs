//! The access log after its file was moved away: SIGUSR1 and SIGHUP open the path again, and no
//! line is lost on the way.

use crate::setup::responding;
use scenarios::{Tidegate, eventually};
use std::path::Path;

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

#[test]
fn both_signals_open_the_file_again() {
    let server = Tidegate::start(&responding("log: { access: { format: json, path: a.log } }"));
    let mut client = server.connect("web");
    let mut ask = || {
        client.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(client.read_response().status, 200);
    };
    let log = server.path("a.log");
    for (number, signal) in ["USR1", "HUP"].into_iter().enumerate() {
        let before = lines(&log);
        ask();
        eventually("a first line", || lines(&log) == before + 1);
        let moved = server.path(&format!("a.log.{number}"));
        std::fs::rename(&log, &moved).expect("a file");
        // Still the same file, by another name.
        ask();
        eventually("a line in the moved file", || lines(&moved) == before + 2);
        server.signal(signal);
        eventually("a new file", || log.exists());
        // Which of the two a line goes to is not said until the first is in the new one.
        let mut asked = before + 2;
        while lines(&log) == 0 {
            ask();
            asked += 1;
            eventually("every line in one of the two", || lines(&log) + lines(&moved) == asked);
        }
        let in_moved = lines(&moved);
        ask();
        eventually("another line", || lines(&log) + in_moved == asked + 1);
    }
}
