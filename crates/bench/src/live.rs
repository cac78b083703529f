//! The display during a run: progress and remaining time on a terminal, plain lines elsewhere.
//!
//! Owns a writer thread, so that measuring threads only send messages. Promises that lines persist
//! and only the progress view at the bottom is overwritten; that output without a terminal consists
//! of whole lines; and that a failing writer has no effect. Never reads the terminal or changes its
//! settings.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the view is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(250);
/// Cells of the bar.
const BAR_CELLS: usize = 16;
/// A view that is wider than the terminal would break into lines that stay.
const COLUMNS: usize = 79;

enum Message {
    Line(String),
    /// The part of the planned time that has passed.
    Step {
        what: String,
        done: Duration,
    },
}

/// The progress output of a run.
#[derive(Debug)]
pub struct Live {
    sender: Option<Sender<Message>>,
    writer: Option<JoinHandle<()>>,
}

impl Live {
    /// On stderr; `planned` is the duration of the whole run.
    pub fn on_stderr(told: Duration) -> Self {
        let stderr = io::stderr();
        let is_terminal = stderr.is_terminal();
        Self::to(stderr, is_terminal, told)
    }

    pub fn to(out: impl Write + Send + 'static, is_terminal: bool, told: Duration) -> Self {
        let (sender, receiver) = mpsc::channel();
        let view = View { out, is_terminal, told, what: String::new(), done: Duration::ZERO };
        let writer = std::thread::spawn(move || view.follow(&receiver));
        Self { sender: Some(sender), writer: Some(writer) }
    }

    /// Prints a line that persists.
    pub fn line(&self, text: impl Into<String>) {
        self.send(Message::Line(text.into()));
    }

    /// Sets the current activity, and the part of the planned time that has passed.
    pub fn step(&self, what: impl Into<String>, done: Duration) {
        self.send(Message::Step { what: what.into(), done });
    }

    fn send(&self, message: Message) {
        if let Some(sender) = &self.sender {
            // A writer that broke is not a reason to stop measuring.
            let _ = sender.send(message);
        }
    }
}

/// Ends when everything is written and the view is cleared.
impl Drop for Live {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

struct View<W> {
    out: W,
    is_terminal: bool,
    told: Duration,
    what: String,
    done: Duration,
}

impl<W: Write> View<W> {
    fn follow(mut self, messages: &Receiver<Message>) {
        let mut since = Instant::now();
        loop {
            let written = match messages.recv_timeout(DRAW_EVERY) {
                Ok(Message::Line(text)) => self.line(&text).and_then(|()| self.draw(since)),
                Ok(Message::Step { what, done }) => {
                    let new_part = what.split(" · ").next() != self.what.split(" · ").next();
                    (self.what, self.done, since) = (what, done, Instant::now());
                    self.announce(new_part).and_then(|()| self.draw(since))
                }
                Err(RecvTimeoutError::Timeout) => self.draw(since),
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = self.clear().and_then(|()| self.out.flush());
                    return;
                }
            };
            if written.is_err() {
                return;
            }
        }
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        self.clear()?;
        writeln!(self.out, "{text}")
    }

    /// Without a terminal only the beginning of a part is worth a line.
    fn announce(&mut self, new_part: bool) -> io::Result<()> {
        if self.is_terminal || !new_part {
            return Ok(());
        }
        let part = self.what.split(" · ").next().unwrap_or_default();
        let left = super::run::said(self.told.saturating_sub(self.done));
        writeln!(self.out, "{part}: {left} left")
    }

    fn draw(&mut self, since: Instant) -> io::Result<()> {
        if !self.is_terminal || self.what.is_empty() {
            return self.out.flush();
        }
        let done = (self.done + since.elapsed()).min(self.told);
        let share = done.as_secs_f64() / self.told.as_secs_f64().max(0.001);
        let full = (share * BAR_CELLS as f64) as usize;
        let bar = "█".repeat(full) + &"░".repeat(BAR_CELLS - full);
        let left = super::run::said(self.told - done);
        let text = format!("{bar} {:3.0} %  {left} left  {}", share * 100.0, self.what);
        let text: String = text.chars().take(COLUMNS).collect();
        write!(self.out, "\r\x1b[2K{text}")?;
        self.out.flush()
    }

    fn clear(&mut self) -> io::Result<()> {
        if self.is_terminal { write!(self.out, "\r\x1b[2K") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::Live;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn said(is_terminal: bool) -> String {
        let written = Written::default();
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        // Half a minute more: the test may be slow.
        let live = Live::to(written.clone(), is_terminal, hours(100) + Duration::from_secs(30));
        live.line("nginx 1.22");
        live.step("hello · nginx · round 1", hours(25));
        live.step("hello · floor · round 1", hours(26));
        live.line("hello nginx 7.0 µs");
        drop(live);
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn without_a_terminal_there_are_whole_lines_only() {
        assert_eq!(said(false), "nginx 1.22\nhello: 75 h 0 min left\nhello nginx 7.0 µs\n");
    }

    #[test]
    fn a_terminal_sees_progress_and_keeps_the_lines() {
        let said = said(true);
        assert!(said.contains("████░"), "{said:?}");
        assert!(said.contains("25 %  75 h 0 min left  hello · nginx · round 1"), "{said:?}");
        assert!(said.contains("\r\x1b[2Khello nginx 7.0 µs\n"), "{said:?}");
        assert!(said.ends_with("\r\x1b[2K"), "{said:?}");
    }
}
