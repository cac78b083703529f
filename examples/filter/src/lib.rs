//! `maintenance`: a complete filter in one file.
//!
//! While it is on a route, clients get 503 with Retry-After, except those of the networks in
//! `allow`. Responses to those are marked, so that an operator sees that the route is closed to
//! others. Promises that no request waits for the decision.
//!
//! The file is in the order from the configuration to a response: settings, kind, plan, filter.

use std::rc::Rc;
use std::sync::Arc;

use message::{Fault, FaultKind, Request, Response};
use plugin::{Filter, FilterKind, FilterPlan, MaybeFuture, Stage, Step, WorkerContext};
use settings::{Cidr, Duration, Node, Reader, Setting, any_contains};

/// Responds 503 to all clients except those of some networks.
///
/// `filters: [{ maintenance: { allow: ["10.0.0.0/8"], retry_after: 10m } }]`
#[derive(Clone, Debug, PartialEq, Setting)]
struct Maintenance {
    /// Networks whose clients are served as usual.
    #[setting(default = [], example = ["10.0.0.0/8"])]
    allow: Vec<Cidr>,
    /// When clients may try again.
    #[setting(default = "5m", range = "1s"..="1d")]
    retry_after: Duration,
}

/// The filter for the configuration: its name, the schema of its settings, and how they are read.
pub const KIND: FilterKind = FilterKind { name: "maintenance", schema: Maintenance::schema, read };

/// Reads the settings into a plan. Errors are added to the report of the reader, with their
/// position.
fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(Maintenance::read(node, reader)?))
}

/// The settings need no preparation, so they are the plan.
impl FilterPlan for Maintenance {
    fn name(&self) -> &'static str {
        "maintenance"
    }

    fn build(&self, _: &WorkerContext) -> Stage {
        Stage::Filter(Rc::new(MaintenanceFilter {
            allow: self.allow.clone(),
            // At most a day.
            retry_after_s: self.retry_after.get().as_secs() as u32,
        }))
    }

    fn describe(&self) -> String {
        format!("{} networks are served", self.allow.len())
    }
}

/// The filter as one worker runs it.
struct MaintenanceFilter {
    allow: Vec<Cidr>,
    retry_after_s: u32,
}

impl Filter for MaintenanceFilter {
    fn name(&self) -> &'static str {
        "maintenance"
    }

    /// A few comparisons cost less than reading the clock.
    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        if any_contains(&self.allow, request.client_ip) {
            return Step::Continue.into();
        }
        // The detail is for the log; the body of the response is what Accept prefers.
        let fault = Fault::new(FaultKind::Unavailable, "the route is under maintenance");
        Step::Fail(Fault { retry_after_s: Some(self.retry_after_s), ..fault }).into()
    }

    fn on_response<'a>(
        &'a self,
        _: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        response.headers.append("x-maintenance", "on");
        Step::Continue.into()
    }
}

#[cfg(test)]
mod tests;
