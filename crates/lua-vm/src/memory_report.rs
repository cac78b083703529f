//! The memory of a VM in the metrics of its worker.

use std::cell::Cell;
use std::sync::Arc;

use telemetry::WorkerMetrics;

use crate::meter::Meter;

/// A VM's part of what its worker reports.
pub(crate) struct MemoryReport {
    worker: Arc<WorkerMetrics>,
    used: Cell<i64>,
    limit: Cell<i64>,
}

impl MemoryReport {
    pub(crate) fn new(worker: Arc<WorkerMetrics>) -> MemoryReport {
        worker.lua.vms.inc();
        MemoryReport { worker, used: Cell::new(0), limit: Cell::new(0) }
    }

    pub(crate) fn update(&self, meter: &Meter) {
        self.set(signed(meter.used()), signed(meter.limit()));
    }

    fn set(&self, used: i64, limit: i64) {
        let lua = &self.worker.lua;
        lua.memory_bytes.add(used - self.used.replace(used));
        lua.memory_limit_bytes.add(limit - self.limit.replace(limit));
    }
}

impl Drop for MemoryReport {
    fn drop(&mut self) {
        self.set(0, 0);
        self.worker.lua.vms.dec();
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
