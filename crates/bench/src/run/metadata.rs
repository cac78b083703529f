//! The metadata of a run: time, machine, servers.

use super::schedule::Schedule;
use crate::machine;
use crate::report::data;

impl Schedule {
    /// The results without a record.
    pub(super) fn without_records(&self) -> data::Data {
        let facts = machine::facts();
        let found = self.found.iter().map(|found| data::Peer {
            name: found.peer.name.to_owned(),
            version: Some(found.version.clone()),
            ..data::Peer::default()
        });
        let missing = self.missing.iter().map(|(name, why)| data::Peer {
            name: (*name).to_owned(),
            missing: Some(why.clone()),
            ..data::Peer::default()
        });
        data::Data {
            version: data::VERSION,
            date: format!("{:.0}", jiff::Timestamp::now()),
            planned_seconds: self.planned().as_secs_f64(),
            elapsed_seconds: 0.0,
            complete: true,
            pinned: self.cores.map(|(servers, load)| {
                format!("pinned: servers on core {servers}, load on {load}")
            }),
            notes: self.notes.clone(),
            machine: data::Machine {
                cpu: facts.cpu,
                cores: facts.cores,
                memory_bytes: facts.memory_bytes,
                kernel: facts.kernel,
                governor: facts.governor,
                clocksource: facts.clocksource,
                congestion_control: facts.congestion_control,
                virtualization: facts.virtualization,
                steal_share: facts.steal_share,
                load: facts.load,
            },
            commands: vec![data::Command {
                what: "the run".to_owned(),
                line: self.options.command.clone(),
            }],
            scenarios: Vec::new(),
            peers: found.chain(missing).collect(),
            records: Vec::new(),
        }
    }
}
