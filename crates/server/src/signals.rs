//! Signals of the process, as events of the control loop.
//!
//! SIGTERM and the first SIGINT drain, a second SIGINT stops at once, SIGHUP reloads, SIGUSR1 opens
//! log files again.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Drain,
    Interrupt,
    Reload,
    ReopenLogs,
}

pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user: Signal,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Drain,
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.hangup.recv() => Asked::Reload,
            _ = self.user.recv() => Asked::ReopenLogs,
        }
    }
}
