//! The errors of a worker's scripts: all VMs of a server record theirs in one list.

use std::sync::Arc;

use telemetry::{ErrorRecord, RecentErrors, WorkerMetrics};

/// Where the VMs of a worker record errors.
#[derive(Clone, Debug)]
pub struct ErrorRecorder {
    pub errors: Arc<RecentErrors>,
    pub worker: usize,
    pub metrics: Arc<WorkerMetrics>,
}

impl ErrorRecorder {
    /// Records an error; its worker is set here.
    pub fn record(&self, error: ErrorRecord) {
        self.metrics.lua.errors.inc();
        self.note(error);
    }

    /// The same for what ended no coroutine, which is not counted.
    pub fn note(&self, error: ErrorRecord) {
        self.errors.add(ErrorRecord { worker: self.worker, ..error });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::ErrorRecorder;
    use telemetry::ErrorRecord;

    #[test]
    fn errors_that_ended_a_coroutine_are_counted() {
        let recorder = ErrorRecorder { errors: Arc::default(), worker: 3, metrics: Arc::default() };
        recorder.record(ErrorRecord::default());
        recorder.note(ErrorRecord::default());
        let last = &recorder.errors.latest()[0];
        assert_eq!((last.worker, last.times, recorder.metrics.lua.errors.get()), (3, 2, 1));
    }
}
