//! The thread that writes a log is woken for every line.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use writer_signal::WriterSignal;

#[path = "../../crates/telemetry/src/writer_signal.rs"]
mod writer_signal;

/// The ring as far as it matters here: how many lines are in it.
#[derive(Default)]
struct Lines(AtomicUsize);

impl Lines {
    fn push(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Acquire)
    }

    fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// `workers` push a line each; the writer takes all of them and sleeps between.
fn every_line_is_written(workers: usize) {
    crate::check(move || {
        let signal = Arc::new(WriterSignal::default());
        let rings: Vec<_> = (0..workers).map(|_| Arc::new(Lines::default())).collect();
        signal.set_thread(thread::current());
        for ring in &rings {
            let (signal, ring) = (signal.clone(), ring.clone());
            thread::spawn(move || {
                ring.push();
                signal.notify();
            });
        }
        let mut written = 0;
        while written < workers {
            let taken: usize = rings.iter().map(|ring| ring.take()).sum();
            written += taken;
            if taken == 0 {
                signal.sleep(|| rings.iter().all(|ring| ring.is_empty()));
            }
        }
    });
}

#[test]
fn no_line_is_left_to_a_sleeping_writer() {
    every_line_is_written(1);
}

#[test]
fn workers_that_push_at_the_same_time_wake_it_for_both() {
    every_line_is_written(2);
}
