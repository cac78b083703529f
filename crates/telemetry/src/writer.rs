//! The thread that writes a log.
//!
//! One thread per destination drains the rings of all workers and writes in large pieces. It sleeps
//! while there is nothing to write and otherwise lets lines accumulate for some milliseconds, so
//! that a busy worker rarely wakes it. A failed write is counted and its lines are lost: a full
//! disk must not stop the server. The event log reports when writes begin to fail and when they
//! succeed again. A write may also block for ever, on a pipe that is not read: then rings fill up
//! and drop lines, and no caller waits for the thread longer than `FLUSH_WITHIN`.

use crate::cell::SharedCounter;
use crate::families;
use crate::limits::{FLUSH_WITHIN, GATHER_MS, RING_LINES, WRITE_BATCH_BYTES};
use crate::log::Level;
use crate::registry::Telemetry;
use crate::ring::LogRing;
use crate::writer_signal::WriterSignal;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The destination of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    Stderr,
    Stdout,
    /// Appended to; created if missing.
    File(PathBuf),
    /// Lines that a function takes, several at once.
    Lines(LineReceiver),
    /// Lines that a function sends somewhere: it may block, and fail.
    Remote(LineSender),
}

type TakeLines = dyn Fn(&[u8]) + Send + Sync;

/// Takes lines with their ends; it must not block.
#[derive(Clone)]
pub struct LineReceiver(pub Arc<TakeLines>);

type SendLines = dyn Fn(&[u8]) -> io::Result<()> + Send + Sync;

/// Sends lines with their ends.
#[derive(Clone)]
pub struct LineSender(pub Arc<SendLines>);

impl fmt::Debug for LineSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LineSender")
    }
}

impl PartialEq for LineSender {
    fn eq(&self, other: &LineSender) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LineSender {}

impl fmt::Debug for LineReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LineReceiver")
    }
}

impl PartialEq for LineReceiver {
    fn eq(&self, other: &LineReceiver) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LineReceiver {}

impl Sink {
    /// Checks that the destination can be opened, without writing.
    pub fn check(&self) -> io::Result<()> {
        Output::open(self).map(drop)
    }
}

enum Output {
    Stderr,
    Stdout,
    File(File),
    Lines(LineReceiver),
    Remote(LineSender),
}

impl Output {
    fn open(sink: &Sink) -> io::Result<Self> {
        Ok(match sink {
            Sink::Stderr => Self::Stderr,
            Sink::Stdout => Self::Stdout,
            Sink::Lines(receiver) => Self::Lines(receiver.clone()),
            Sink::Remote(sender) => Self::Remote(sender.clone()),
            Sink::File(path) => {
                let mut options = OpenOptions::new();
                options.append(true).create(true);
                // Opening a FIFO for writing only blocks until it has a reader; opening it for both
                // does not (fifo(7)), and lines wait in it. Without permission to read it, blocking
                // is the only choice.
                let fifo = fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
                let opened = options.clone().read(fifo).open(path);
                Self::File(match opened {
                    Err(error) if fifo && error.kind() == io::ErrorKind::PermissionDenied => {
                        options.open(path)?
                    }
                    opened => opened?,
                })
            }
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stderr => io::stderr().lock().write_all(bytes),
            Self::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()
            }
            Self::File(file) => file.write_all(bytes),
            Self::Lines(receiver) => {
                (receiver.0)(bytes);
                Ok(())
            }
            Self::Remote(sender) => (sender.0)(bytes),
        }
    }
}

#[derive(Default)]
struct WriterState {
    rings: Vec<Arc<LogRing>>,
    output: Option<Output>,
    /// Others that get the lines, if they are to change.
    copies: Option<Vec<LineReceiver>>,
    flushes_wanted: u64,
    flushes_done: u64,
    stop: bool,
    /// The thread has written everything and is about to end.
    ended: bool,
}

struct Shared {
    state: Mutex<WriterState>,
    flushed: Condvar,
    signal: Arc<WriterSignal>,
    dropped: Arc<SharedCounter>,
    failed: Arc<SharedCounter>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running log. Dropping it writes the remaining lines and ends its thread, unless that takes too
/// long: then the thread ends with its write or with the process.
pub struct LogWriter {
    shared: Arc<Shared>,
    sink: Mutex<Sink>,
    thread: Option<JoinHandle<()>>,
}

impl LogWriter {
    /// Opens the destination and starts the thread. `log` is the label of its counters.
    pub fn start(log: &'static str, sink: Sink, telemetry: &Telemetry) -> io::Result<Self> {
        let output = Output::open(&sink)?;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            flushed: Condvar::new(),
            signal: Arc::new(WriterSignal::default()),
            dropped: telemetry.counter(&families::LOG_DROPPED, &[log]),
            failed: telemetry.counter(&families::LOG_WRITE_ERRORS, &[log]),
        });
        let run = Arc::clone(&shared);
        let thread = thread::Builder::new().name(format!("log-{log}")).spawn(move || {
            WriterLoop::new(log, run, output).run();
        })?;
        shared.signal.set_thread(thread.thread().clone());
        Ok(Self { shared, sink: Mutex::new(sink), thread: Some(thread) })
    }

    /// Creates a ring for one worker. It is removed once the worker drops it.
    pub fn ring(&self) -> Arc<LogRing> {
        let dropped = Arc::clone(&self.shared.dropped);
        let ring = Arc::new(LogRing::new(dropped, Arc::clone(&self.shared.signal)));
        self.shared.state().rings.push(Arc::clone(&ring));
        ring
    }

    /// Opens the file again, as after a rotation. If that fails, the old file stays in use.
    pub fn reopen(&self) -> io::Result<()> {
        let sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.retarget(sink)
    }

    /// Changes the destination; lines pushed before are written to the old one.
    pub fn retarget(&self, sink: Sink) -> io::Result<()> {
        let output = Output::open(&sink)?;
        *self.sink.lock().unwrap_or_else(PoisonError::into_inner) = sink;
        self.shared.state().output = Some(output);
        self.flush();
        Ok(())
    }

    /// Replaces those that get a copy of each line that is written from now on.
    pub fn copy_to(&self, copies: Vec<LineReceiver>) {
        self.shared.state().copies = Some(copies);
        self.flush();
    }

    /// Waits until every line pushed before has been written, `FLUSH_WITHIN` at most.
    pub fn flush(&self) {
        let mut state = self.shared.state();
        state.flushes_wanted += 1;
        let ticket = state.flushes_wanted;
        self.shared.signal.wake();
        drop(self.wait_while(state, |state| state.flushes_done < ticket));
    }

    fn wait_while<'o>(
        &self,
        state: MutexGuard<'o, WriterState>,
        waits: impl Fn(&WriterState) -> bool,
    ) -> MutexGuard<'o, WriterState> {
        let flushed = &self.shared.flushed;
        let waited = flushed.wait_timeout_while(state, FLUSH_WITHIN, |state| waits(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.stop = true;
        self.shared.signal.wake();
        let has_ended = self.wait_while(state, |state| !state.ended).ended;
        if let Some(thread) = self.thread.take().filter(|_| has_ended) {
            // The thread's panic was reported when it happened.
            drop(thread.join());
        }
    }
}

struct WriterLoop {
    log: &'static str,
    shared: Arc<Shared>,
    output: Output,
    copies: Vec<LineReceiver>,
    batch: Vec<u8>,
    /// True if the latest write failed.
    failing: bool,
}

impl WriterLoop {
    fn new(log: &'static str, shared: Arc<Shared>, output: Output) -> WriterLoop {
        WriterLoop { log, shared, output, copies: Vec::new(), batch: Vec::new(), failing: false }
    }

    fn run(mut self) {
        // In case the first line arrives before `start` has set the thread.
        self.shared.signal.set_thread(thread::current());
        loop {
            let (rings, output, copies, wanted, stop) = {
                let mut state = self.shared.state();
                // A ring without another owner gets no more lines.
                state.rings.retain_mut(|ring| Arc::get_mut(ring).is_none_or(|r| !r.is_empty()));
                let (output, copies) = (state.output.take(), state.copies.take());
                (state.rings.clone(), output, copies, state.flushes_wanted, state.stop)
            };
            let lines = rings.iter().map(|ring| self.drain(ring)).sum::<usize>();
            self.write();
            if let Some(output) = output {
                self.output = output;
            }
            if let Some(copies) = copies {
                self.copies = copies;
            }
            self.report(wanted);
            if stop {
                self.shared.state().ended = true;
                self.shared.flushed.notify_all();
                return;
            }
            if lines > 0 {
                thread::park_timeout(Duration::from_millis(GATHER_MS));
            } else {
                let shared = Arc::clone(&self.shared);
                shared.signal.sleep(|| {
                    let state = shared.state();
                    !state.stop
                        && state.flushes_done == state.flushes_wanted
                        && state.rings.iter().all(|ring| ring.is_empty())
                });
            }
        }
    }

    fn report(&self, wanted: u64) {
        let mut state = self.shared.state();
        if state.flushes_done != wanted {
            state.flushes_done = wanted;
            self.shared.flushed.notify_all();
        }
    }

    /// Takes at most a ring's capacity of lines, so that one busy worker cannot starve the others.
    fn drain(&mut self, ring: &LogRing) -> usize {
        let mut lines = 0;
        while lines < RING_LINES {
            let Some(line) = ring.pop() else { break };
            self.batch.extend_from_slice(&line);
            self.batch.push(b'\n');
            ring.recycle(line);
            lines += 1;
            if self.batch.len() >= WRITE_BATCH_BYTES {
                self.write();
            }
        }
        lines
    }

    fn write(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        self.copies.iter().for_each(|copy| (copy.0)(&self.batch));
        match self.output.write(&self.batch) {
            Ok(()) if self.failing => {
                crate::event!(Level::Info, "log writes succeed again", log = self.log);
                self.failing = false;
            }
            Ok(()) => {}
            Err(error) => {
                self.shared.failed.inc();
                if !self.failing {
                    let log = self.log;
                    crate::event!(
                        Level::Error,
                        "log lines lost, write failed",
                        log = log,
                        error = error
                    );
                }
                self.failing = true;
            }
        }
        self.batch.clear();
    }
}

#[cfg(test)]
mod tests;
