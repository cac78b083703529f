//! An open loop at 70 % of what the slowest server of the case can do, and the same to the backend.
//!
//! Promises that all servers of a case get the same rate, so that their latencies can be compared,
//! and that what the backend takes without any of them is measured too.

use super::execution::{Execution, Server};
use super::measure;
use super::schedule::{LOOKS, Step};
use crate::cpu::Tree;
use crate::load::{LoadPlan, Mode};
use crate::report::data::DIRECT;
use crate::scenarios::Fixture;

/// The share of the capacity that is offered.
const SHARE: f64 = 0.7;

impl Execution<'_> {
    /// Returns the rate that is offered; `None` if no server responds.
    pub(super) fn seventy_percent(
        &self,
        step: &Step,
        fixture: &Fixture,
        servers: &[Server],
        connections: usize,
    ) -> Option<f64> {
        let plan = LoadPlan { mode: Mode::Closed, ..self.plan(connections, false) };
        let capacities = servers.iter().filter_map(|server| {
            self.say(&format!("{} · {} · capacity", step.case.name, server.running.peer.name));
            let target = fixture.target(server.running.address);
            let looks = (0..LOOKS).filter_map(|_| {
                let measured = measure::round(None, &target, &plan, None, &[]).ok()?;
                Some(measured.round.requests_per_second)
            });
            looks.last()
        });
        let slowest = capacities.min_by(f64::total_cmp)?;
        (slowest > 0.0).then_some(slowest * SHARE)
    }

    /// Loads the backend itself at the rate of the step.
    pub(super) fn load_backend(&mut self, step: &Step, fixture: &Fixture, connections: usize) {
        let Some((address, id)) = fixture.backend() else { return };
        let (target, tree) = (fixture.target(address), Tree::of(id));
        let mut gathered = self.gathered(step, DIRECT, connections);
        for round in 1..=self.schedule.options.rounds {
            self.say(&format!("{} · {DIRECT} · {connections} · round {round}", step.case.name));
            let plan = self.plan(connections, false);
            let measured = measure::round(None, &target, &plan, Some(&tree), &[]);
            self.take(measured, false, &mut gathered);
        }
        self.keep(gathered);
    }
}
