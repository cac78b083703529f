//! Signals of the process, as events of the control loop.
//!
//! SIGTERM and the first SIGINT drain, a second SIGINT stops at once, SIGHUP reloads, SIGUSR1 opens
//! log files again, SIGTTIN and SIGTTOU ask for one worker process more and one less.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// signal(7): the same on every system that we build for.
const TTIN: i32 = 21;
const TTOU: i32 = 22;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Drain,
    Interrupt,
    Reload,
    ReopenLogs,
    More,
    Fewer,
}

pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user: Signal,
    more: Signal,
    fewer: Signal,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
            more: signal(SignalKind::from_raw(TTIN))?,
            fewer: signal(SignalKind::from_raw(TTOU))?,
        })
    }

    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Drain,
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.hangup.recv() => Asked::Reload,
            _ = self.user.recv() => Asked::ReopenLogs,
            _ = self.more.recv() => Asked::More,
            _ = self.fewer.recv() => Asked::Fewer,
        }
    }
}
