//! Signals of the process, as events of the control loop.
//!
//! SIGTERM and the first SIGINT drain, a second SIGINT stops at once, SIGHUP reloads, SIGUSR1
//! reopens log files, SIGTTIN and SIGTTOU add and remove a worker process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The number is the same on every supported system (signal(7)).
const TTIN: i32 = 21;
const TTOU: i32 = 22;

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalAction {
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
    /// Only for supervisors: a background job of a terminal receives these signals as well.
    of_processes: Option<[Signal; 2]>,
}

impl Signals {
    pub(crate) fn new(has_processes: bool) -> io::Result<Signals> {
        let of_processes = match has_processes {
            true => {
                Some([signal(SignalKind::from_raw(TTIN))?, signal(SignalKind::from_raw(TTOU))?])
            }
            false => None,
        };
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
            of_processes,
        })
    }

    pub(crate) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Drain,
            _ = self.interrupt.recv() => SignalAction::Interrupt,
            _ = self.hangup.recv() => SignalAction::Reload,
            _ = self.user.recv() => SignalAction::ReopenLogs,
            asked = of_processes(self.of_processes.as_mut()) => asked,
        }
    }
}

async fn of_processes(signals: Option<&mut [Signal; 2]>) -> SignalAction {
    let Some([more, fewer]) = signals else { return std::future::pending().await };
    tokio::select! {
        _ = more.recv() => SignalAction::More,
        _ = fewer.recv() => SignalAction::Fewer,
    }
}
