//! The result of the last reload, for the log, the metrics and the admin API.

use std::cell::RefCell;
use std::sync::Arc;

use admin::{Applied, Refusal, ReloadStatus};
use telemetry::log::Level;
use telemetry::{MarkKind, Telemetry, event, families};

/// Records the results of reloads.
pub(crate) struct ReloadResult {
    telemetry: Arc<Telemetry>,
    last: RefCell<Option<ReloadStatus>>,
}

impl ReloadResult {
    /// Exports the counters of reloads.
    pub(crate) fn new(telemetry: &Arc<Telemetry>) -> ReloadResult {
        // A counter is exported from the start: Prometheus does not see the first increment of a
        // new one.
        for family in [&families::CONFIG_RELOADS, &families::CONFIG_RELOAD_FAILURES] {
            telemetry.counter(family, &[]);
        }
        ReloadResult { telemetry: telemetry.clone(), last: RefCell::default() }
    }

    pub(crate) fn last(&self) -> Option<ReloadStatus> {
        self.last.borrow().clone()
    }

    /// Exports whether the configuration read last is in use.
    pub(crate) fn show_last(&self, is_in_use: bool) {
        self.telemetry.gauge(&families::CONFIG_LAST_OK, &[]).set(i64::from(is_in_use));
        if is_in_use {
            let now_s = telemetry::timestamp::now_ms() / 1000;
            let time = self.telemetry.gauge(&families::CONFIG_LAST_TIME, &[]);
            time.set(i64::try_from(now_s).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn note(&self, result: &Result<Applied, Refusal>, is_supervisor: bool) {
        let errors = match result {
            Ok(applied) => {
                self.telemetry.counter(&families::CONFIG_RELOADS, &[]).inc();
                self.show_last(true);
                let text = match is_supervisor {
                    true => "the application was reloaded".to_owned(),
                    false => format!("configuration {} is in use", applied.version),
                };
                self.telemetry.marks().add(MarkKind::Neutral, &text);
                // The configuration of a supervisor is generated: its version says nothing.
                if !is_supervisor {
                    event!(
                        Level::Info,
                        "configuration in use",
                        version = applied.version,
                        changes = applied.changes.len()
                    );
                }
                Vec::new()
            }
            Err(Refusal::Busy | Refusal::Stale { .. }) => return,
            Err(refusal) => {
                self.telemetry.counter(&families::CONFIG_RELOAD_FAILURES, &[]).inc();
                self.show_last(false);
                let errors = refusal.errors();
                self.telemetry.marks().add(MarkKind::Bad, "a configuration was rejected");
                event!(
                    Level::Error,
                    "configuration rejected, keeping the previous one",
                    errors = errors.join("; ")
                );
                errors
            }
        };
        let at_ms = telemetry::timestamp::now_ms();
        *self.last.borrow_mut() = Some(ReloadStatus { at_ms, errors });
    }
}
