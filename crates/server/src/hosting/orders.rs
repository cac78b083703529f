//! What a worker process is told: by its supervisor, by a signal, by the end of the control socket.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use telemetry::event;
use telemetry::log::Level;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use super::Process;
use crate::supervise::{Order, SHUT_DOWN_WITHIN, Word};

/// How to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// Finish what is under way within this time.
    Within(Duration),
    Now,
}

/// The order to leave, once there is one. A stricter one replaces it.
pub(super) struct Orders {
    graceful: Duration,
    embedded: bool,
    leave: Cell<Option<Leave>>,
    given: Notify,
    /// Makes the text of the metrics, where there are any.
    metrics: Cell<Option<Box<dyn Fn() -> String>>>,
    pub(super) reopen_logs: Notify,
}

impl Orders {
    /// `embedded` leaves signals to the program around us, and expects the end of the socket.
    pub(super) fn new(graceful: Duration, embedded: bool) -> Orders {
        Orders {
            graceful,
            embedded,
            leave: Cell::default(),
            given: Notify::new(),
            metrics: Cell::default(),
            reopen_logs: Notify::new(),
        }
    }

    pub(super) fn show_metrics(&self, text: impl Fn() -> String + 'static) {
        self.metrics.set(Some(Box::new(text)));
    }

    fn give(&self, leave: Leave) {
        if self.leave.get() != Some(Leave::Now) {
            self.leave.set(Some(leave));
        }
        self.given.notify_waiters();
    }

    /// Returns when the process is to leave.
    pub(super) async fn leave(&self) -> Leave {
        loop {
            let given = self.given.notified();
            if let Some(leave) = self.leave.get() {
                return leave;
            }
            given.await;
        }
    }

    /// Returns when it is to leave at once.
    pub(super) async fn at_once(&self) {
        loop {
            let given = self.given.notified();
            if self.leave.get() == Some(Leave::Now) {
                return;
            }
            given.await;
        }
    }
}

/// Takes orders as long as the process lives.
pub(super) async fn listen(process: Rc<Process>) {
    let orders = &process.orders;
    let graceful = Leave::Within(orders.graceful);
    let terminated = async {
        if orders.embedded {
            return std::future::pending().await;
        }
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => {
                terminate.recv().await;
            }
            // Then it ends the process as it would any other.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::pin!(terminated);
    let mut is_terminated = false;
    loop {
        let told = tokio::select! {
            told = process.link.told() => told,
            () = &mut terminated, if !is_terminated => {
                is_terminated = true;
                orders.give(graceful);
                continue;
            }
        };
        match told {
            Ok(Some(order)) => obey(&process, order).await,
            Ok(None) | Err(_) => {
                if orders.leave.get().is_none() {
                    if orders.embedded {
                        return orders.give(graceful);
                    }
                    event!(Level::Warn, "the supervisor has gone: this worker drains and ends");
                    end_within(orders.graceful + SHUT_DOWN_WITHIN);
                    orders.give(graceful);
                }
                return;
            }
        }
    }
}

/// Ends the process after this time, if it is still there: nobody else will.
fn end_within(span: Duration) {
    let ending = std::thread::Builder::new().name("orphan".to_owned()).spawn(move || {
        std::thread::sleep(span);
        std::process::abort();
    });
    if ending.is_err() {
        std::process::abort();
    }
}

async fn obey(process: &Process, order: Order) {
    let answer = match order {
        Order::Drain(within) => return process.orders.give(Leave::Within(within)),
        Order::Stop => return process.orders.give(Leave::Now),
        Order::ReopenLogs => return process.orders.reopen_logs.notify_one(),
        Order::Dump => Word::Stalled(process.application.dump()),
        Order::Metrics => {
            let text = process.orders.metrics.take();
            let said = text.as_ref().map_or_else(String::new, |text| text());
            process.orders.metrics.set(text);
            Word::Metrics(said)
        }
    };
    // Who asked has gone where this fails, which is noticed at the next look.
    let _ = process.link.say(&answer).await;
}
