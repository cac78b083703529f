//! The periodic reports of a worker process, and the detection of stalls of its application.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use telemetry::log::Level;
use telemetry::{event, event_limited};

use super::Process;
use crate::supervise::{REPORT_EVERY, WorkerMessage};

/// Sends the statistics, and the exceptions of requests, every second; after the last request those
/// exceptions that remain. An error means that the supervisor has exited.
pub(super) async fn report(process: Rc<Process>) -> io::Result<()> {
    loop {
        let mut stats = process.application.stats();
        let application = &process.application;
        stats.loop_lag_ms = application.lag_ms().max(application.oldest_call_ms());
        stats.stalls = process.stalls.get();
        stats.rss_bytes = rss_bytes("self").unwrap_or(0);
        process.channel.send_message(&WorkerMessage::Stats(Box::new(stats))).await?;
        report_errors(&process).await?;
        // The next report has the result.
        application.check_progress();
        tokio::select! {
            () = net::timer::sleep(REPORT_EVERY) => {}
            () = process.served.notified() => return report_errors(&process).await,
        }
    }
}

/// Sends the exceptions that requests have raised since the previous report.
async fn report_errors(process: &Process) -> io::Result<()> {
    match process.application.take_errors() {
        errors if errors.is_empty() => Ok(()),
        errors => process.channel.send_message(&WorkerMessage::Errors(errors)).await,
    }
}

/// Logs each stall once, with the stack of the call that blocks. An event loop that is busy with
/// many short calls is not a stall.
pub(super) async fn watch(process: Rc<Process>, app: String, slot: usize, stall_ms: u64) {
    if stall_ms == 0 {
        return;
    }
    let look = Duration::from_millis((stall_ms / 2).clamp(10, 1000));
    let mut is_told = false;
    loop {
        net::timer::sleep(look).await;
        let lag_ms = process.application.lag_ms();
        // Checks begin early, because it takes several to distinguish one call from many.
        let is_one_call = lag_ms >= stall_ms / 4 && process.application.is_in_one_call();
        if lag_ms < stall_ms {
            is_told = false;
        } else if is_one_call && !is_told {
            is_told = true;
            process.stalls.set(process.stalls.get() + 1);
            let stack = stacks(&process).await;
            event_limited!(
                1,
                Level::Warn,
                "a call in the application blocks and holds up requests",
                app = app,
                worker = slot,
                process = std::process::id(),
                lag_ms = lag_ms,
                stack = stack
            );
        }
    }
}

/// The stacks of the application's threads, for the log.
pub(super) async fn stacks(process: &Process) -> String {
    let application = process.application.clone();
    net::blocking(move || application.dump()).await.unwrap_or_default()
}

/// Resident memory of a process, or of this one as `self` (proc_pid_statm(5)); `None` if the system
/// does not report it.
pub(crate) fn rss_bytes(process: &str) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * net::page_bytes())
}

/// Reports that the process has stopped accepting, and the number of requests in flight.
pub(super) async fn report_draining(process: &Process, open: usize) {
    let stats = process.application.stats();
    event!(
        Level::Debug,
        "a worker process drains",
        open = open,
        requests = stats.in_flight,
        websockets = stats.websockets
    );
    let _ = process.channel.send_message(&WorkerMessage::Draining(stats.in_flight)).await;
}

/// Reports the number of connections that the drain time-out cuts off.
pub(super) async fn report_cut_off(process: &Process, connections: usize) {
    let _ = process.channel.send_message(&WorkerMessage::CutOff(connections as u64)).await;
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use telemetry::ErrorRecord;
    use tokio::sync::Notify;

    use super::super::commands::CommandQueue;
    use super::super::{Application, Process};
    use super::report;
    use crate::supervise::{ControlChannel, Stats, WorkerMessage};

    /// An application whose requests have raised these; the last ones are removed first.
    struct Raising(Mutex<Vec<Vec<ErrorRecord>>>);

    impl Application for Raising {
        fn stats(&self) -> Stats {
            Stats::default()
        }

        fn take_errors(&self) -> Vec<ErrorRecord> {
            self.0.lock().unwrap().pop().unwrap_or_default()
        }

        fn lag_ms(&self) -> u64 {
            0
        }

        fn stop(&self) {}

        fn dump(&self) -> String {
            String::new()
        }
    }

    #[test]
    fn the_last_errors_follow_the_message_that_is_being_sent() {
        net::worker::block_on_local(async {
            let (one, other) = net::Stream::pair().unwrap();
            let supervisor = ControlChannel::new(other);
            // More than the socket holds.
            let long = ErrorRecord { message: "a".repeat(4 << 20), ..ErrorRecord::default() };
            let last = ErrorRecord { message: "b".to_owned(), ..ErrorRecord::default() };
            let raised = Mutex::new(vec![vec![last.clone()], vec![long.clone()]]);
            let process = Rc::new(Process {
                application: Arc::new(Raising(raised)),
                channel: ControlChannel::new(one),
                commands: CommandQueue::new(Duration::ZERO, true),
                stalls: Cell::new(0),
                served: Notify::new(),
            });
            let report = net::task::spawn_local(report(process.clone()));
            let stats = supervisor.next_message().await.unwrap();
            assert!(matches!(stats, Some(WorkerMessage::Stats(_))), "{stats:?}");
            process.served.notify_one();
            for expected in [long, last] {
                let received = supervisor.next_message().await.unwrap();
                assert_eq!(received, Some(WorkerMessage::Errors(vec![expected])));
            }
            report.await.unwrap().unwrap();
        });
    }
}
