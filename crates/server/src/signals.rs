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
    /// Only where there are processes to be more or fewer: a job in the background of a terminal
    /// gets them from there as well.
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
