//! The metrics of purges that servers share.

use std::sync::Arc;

use telemetry::{SharedCounter, SharedGauge, Telemetry, families};

pub(super) struct PurgeMetrics {
    pub(super) number: Arc<SharedGauge>,
    pub(super) behind: Arc<SharedGauge>,
    pub(super) serving: Arc<SharedGauge>,
    pub(super) applied: Arc<SharedCounter>,
    pub(super) published: Arc<SharedCounter>,
    pub(super) unpublished: Arc<SharedCounter>,
    pub(super) gaps: Arc<SharedCounter>,
    pub(super) failures: Arc<SharedCounter>,
}

impl PurgeMetrics {
    pub(super) fn new(telemetry: &Telemetry) -> PurgeMetrics {
        PurgeMetrics {
            number: telemetry.gauge(&families::PURGES_NUMBER, &[]),
            behind: telemetry.gauge(&families::PURGES_BEHIND, &[]),
            serving: telemetry.gauge(&families::PURGES_SERVING, &[]),
            applied: telemetry.counter(&families::PURGES_APPLIED, &[]),
            published: telemetry.counter(&families::PURGES_PUBLISHED, &[]),
            unpublished: telemetry.counter(&families::PURGES_UNPUBLISHED, &[]),
            gaps: telemetry.counter(&families::PURGES_GAPS, &[]),
            failures: telemetry.counter(&families::PURGES_FAILURES, &[]),
        }
    }
}
