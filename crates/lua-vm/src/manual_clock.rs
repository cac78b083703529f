//! The clock of a VM under test, which stands still until the test moves it.
//!
//! Owns the time of the module `time` and of the VM's timers: sleeping coroutines, `time.after`,
//! time-outs of reads. Promises that timers fire in the order of their deadlines, each at its
//! time, and that what they cause has happened before the next one fires. Does not move the timers
//! of protocols in Rust (HTTP, TLS, DNS), nor the time that JWT and the log have.

use std::rc::Rc;

use crate::vm::Vm;

/// Passes of the event loop without a turn of the VM after which nothing more is to come from
/// sockets of this process.
const QUIET_PASSES: u32 = 64;
/// Passes after which what was sent to a socket of this process was read; fewer than a clock that
/// is moved waits for.
const READ_PASSES: u32 = 16;

impl Vm {
    /// Stops the clock, at `wall_ms` since 1970 if given.
    pub fn stop_clock(&self, wall_ms: Option<u64>) {
        self.timers.stop(wall_ms.unwrap_or_else(|| self.timers.wall_ms()));
    }

    /// True if the clock stands still.
    pub fn is_clock_stopped(&self) -> bool {
        self.timers.is_stopped()
    }

    /// Moves a stopped clock forward, from outside of a turn.
    pub async fn advance(self: &Rc<Self>, span_ms: u64) {
        self.settle().await;
        let end = self.timers.now_ms().saturating_add(span_ms);
        while let Some(due) = self.timers.next_ms().filter(|due| *due <= end) {
            self.timers.move_to(due.max(self.timers.now_ms()));
            self.settle().await;
            if self.exit_code().is_some() || self.timers.next_ms() == Some(due) {
                // The loop of the VM has ended.
                return;
            }
        }
        self.timers.move_to(end);
        self.settle().await;
    }

    /// Waits until what was sent was read, if anything reads it.
    pub async fn let_read(&self) {
        for _ in 0..READ_PASSES {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the event loop brings the VM no more turns.
    async fn settle(&self) {
        let (mut seen, mut quiet) = (self.turn_count(), 0);
        while quiet < QUIET_PASSES {
            // The event loop looks at the sockets before it comes back.
            tokio::task::yield_now().await;
            let now = self.turn_count();
            quiet = if now == seen { quiet + 1 } else { 0 };
            seen = now;
        }
    }
}
