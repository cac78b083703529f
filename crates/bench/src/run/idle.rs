//! Memory of idle connections, and load in parallel with them.
//!
//! Promises that the first connections do not count, and that memory is read when it no longer
//! changes.

use super::execution::{Execution, Server};
use super::schedule::{BESIDE_IDLE, Step};
use crate::load::{BlockingClient, LoadPlan};
use crate::scenarios::{Fixture, ports_of_an_address};

/// Idle connections before the memory of the others is counted: the first ones grow tables and
/// pools that belong to no connection.
const IDLE_BEFORE: usize = 100;

impl Execution<'_> {
    /// Memory of idle connections, and load along with them.
    pub(super) fn idle(&mut self, step: &Step, fixture: &Fixture, server: &mut Server) {
        let (Some(&count), name) = (step.connections.first(), server.running.peer.name) else {
            return;
        };
        let options = &self.schedule.options;
        let target = fixture.idle_target(server.running.address);
        let plan = LoadPlan::default();
        self.say(&format!("{} · {name} · opening {count}", step.case.name));
        let deadline = self.context.deadline;
        // Its connections are open until the load is over.
        let mut idle = BlockingClient::new(&target, &plan);
        let after = idle.as_mut().map_err(|why| why.to_string()).and_then(|idle| {
            let ports = ports_of_an_address();
            let mut grow = |count| idle.grow(count, ports, deadline).map_err(|why| why.to_string());
            grow(IDLE_BEFORE.min(count))?;
            let before = server.tree.settled_rss();
            grow(count)?;
            Ok((before, server.tree.settled_rss()))
        });
        match after {
            Ok((before, after)) if count > IDLE_BEFORE => {
                let grown = after as f64 - before as f64;
                server.gathered.idle_bytes(grown / (count - IDLE_BEFORE) as f64);
            }
            Ok(_) => {}
            Err(_) if self.over(0.0) => {}
            Err(why) => server.gathered.fail("connect", &format!("{name}: {why}")),
        }
        let others = [server.running.id()];
        for round in 0..=options.rounds {
            let seconds = step.round_seconds(options, count, round == 0);
            if self.skips(round, seconds, step.case.name, count) {
                continue;
            }
            if self.over(seconds) {
                break;
            }
            self.say(&format!("{} · {name} · {count} idle · round {round}", step.case.name));
            self.round(step, fixture, server, BESIDE_IDLE, round == 0, &others);
            self.pass(seconds);
        }
        self.pass(step.idle_seconds(count));
    }
}
