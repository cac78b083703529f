//! Log lines as messages of syslog (RFC 5424).
//!
//! Messages are made on the thread that writes a log and put into a ring of their own, whose thread
//! sends them: a syslog server that is slow or away delays neither requests nor the other log.

use crate::escape::cut;
use crate::log::Level;
use crate::ring::LogRing;
use crate::timestamp;
use crate::writer::LineReceiver;
use std::fs;
use std::io::Write;
use std::sync::Arc;

/// Longest message; the rest is cut off. Servers must take 480 bytes and should take 2048 (RFC 5424
/// 6.1); usual ones take 8 KiB.
const MESSAGE_BYTES: usize = 8 * 1024;
/// Longest name of the application (RFC 5424 6.2.5).
const NAME_BYTES: usize = 48;
/// Longest name of the machine (RFC 5424 6.2.4).
const HOST_BYTES: usize = 255;

/// The type of the messages of the event log, whose lines have levels.
pub const EVENTS: &str = "events";

/// What the messages of a log begin with.
#[derive(Debug, Clone)]
pub struct SyslogHeader {
    /// 0 to 23 (RFC 5424 6.2.1).
    pub facility: u8,
    /// The name of the application.
    pub name: String,
    /// The type of the messages: the name of the log.
    pub message_id: &'static str,
}

impl SyslogHeader {
    /// Returns what turns lines into messages and puts them into a ring. It does not block: a full
    /// ring drops messages and counts them.
    pub fn receiver(self, ring: Arc<LogRing>) -> LineReceiver {
        let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let machine = word(&machine, HOST_BYTES);
        let name = word(&self.name, NAME_BYTES);
        let after_time = format!(" {machine} {name} {} {} - ", std::process::id(), self.message_id);
        let facility = self.facility.min(23);
        LineReceiver(Arc::new(move |lines: &[u8]| {
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let mut message = ring.buffer();
                // A line of the access log may begin with what a client sends.
                let level = Level::of_line(line).filter(|_| self.message_id == EVENTS);
                let severity = severity(level.unwrap_or(Level::Info));
                // Writing to a vector does not fail.
                let _ = write!(message, "<{}>1 ", facility * 8 + severity);
                timestamp::rfc3339(timestamp::now_ms(), &mut message);
                message.extend_from_slice(after_time.as_bytes());
                let room = MESSAGE_BYTES - message.len();
                message.extend_from_slice(cut_bytes(line, room));
                ring.push(message);
            }
        }))
    }
}

/// Cuts a line so that no character of UTF-8 is divided.
fn cut_bytes(line: &[u8], room: usize) -> &[u8] {
    match std::str::from_utf8(line) {
        Ok(text) => cut(text, room).as_bytes(),
        Err(_) => &line[..room.min(line.len())],
    }
}

/// A field of the header: printable characters of ASCII without spaces; `-` if there is none.
fn word(text: &str, bytes_max: usize) -> String {
    let word: String = text.trim().chars().filter(char::is_ascii_graphic).take(bytes_max).collect();
    if word.is_empty() { "-".to_owned() } else { word }
}

/// The severity of a level (RFC 5424 6.2.1).
fn severity(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::{EVENTS, MESSAGE_BYTES, SyslogHeader, word};
    use crate::registry::Telemetry;
    use crate::writer::{LineSender, LogWriter, Sink};
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    /// The parts of a message: priority, the machine's fields, the text.
    fn parts(message: &str) -> (String, Vec<String>, String) {
        let (priority, rest) = message.split_once(' ').unwrap();
        let words: Vec<String> = rest.splitn(7, ' ').map(str::to_owned).collect();
        assert!(words[0].ends_with('Z') && words[0].len() == 24, "{message}");
        (priority.to_owned(), words[2..6].to_vec(), words[6].clone())
    }

    #[test]
    fn lines_become_messages() {
        let (sender, received) = channel();
        let send = move |lines: &[u8]| {
            sender.send(String::from_utf8(lines.to_vec()).unwrap()).map_err(std::io::Error::other)
        };
        let sink = Sink::Remote(LineSender(Arc::new(send)));
        let writer = LogWriter::start("syslog", sink, &Telemetry::new()).unwrap();
        let header = SyslogHeader { facility: 16, name: "my gate".to_owned(), message_id: EVENTS };
        let receiver = header.receiver(writer.ring());
        (receiver.0)(b"2026-11-20T10:21:00.123Z ERROR no room left=0\n");
        (receiver.0)(b"{\"time\":\"x\",\"level\":\"warn\"}\nGET / 200\n");
        (receiver.0)(&[b'x'; 3 * MESSAGE_BYTES]);
        // A client chooses no severity.
        let header =
            SyslogHeader { facility: 16, name: "my gate".to_owned(), message_id: "access" };
        let access = header.receiver(writer.ring());
        (access.0)(b"127.0.0.1 ERROR no browser\n");
        drop((receiver, access, writer));
        let sent = received.iter().collect::<String>();
        let lines: Vec<&str> = sent.lines().collect();
        let (priority, words, text) = parts(lines[0]);
        assert_eq!(priority, "<131>1");
        assert_eq!(words, ["mygate", &std::process::id().to_string(), "events", "-"]);
        assert_eq!(text, "2026-11-20T10:21:00.123Z ERROR no room left=0");
        assert_eq!((&*parts(lines[1]).0, &*parts(lines[2]).0), ("<132>1", "<134>1"));
        assert_eq!(lines[3].len(), MESSAGE_BYTES);
        assert_eq!(parts(lines[4]).0, "<134>1");
    }

    #[test]
    fn fields_of_the_header_are_words() {
        assert_eq!(word(" a b\n", 9), "ab");
        assert_eq!(word("\n", 9), "-");
        assert_eq!(word("abc", 2), "ab");
    }
}
