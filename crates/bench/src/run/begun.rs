//! What is known of a run before anything is measured: when, where, with which servers.

use super::schedule::Schedule;
use crate::machine;
use crate::report::data;
use std::time::SystemTime;

impl Schedule {
    /// The results without a record.
    pub(super) fn nothing_yet(&self) -> data::Data {
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
            date: rfc3339(SystemTime::now()),
            planned_seconds: self.told().as_secs_f64(),
            elapsed_seconds: 0.0,
            complete: true,
            pinned: self
                .cores
                .map(|(servers, load)| format!("servers on core {servers}, load on core {load}")),
            notes: self.notes.clone(),
            machine: data::Machine {
                cpu: facts.cpu,
                cores: facts.cores,
                memory_bytes: facts.memory_bytes,
                kernel: facts.kernel,
                governor: facts.governor,
                clocksource: facts.clocksource,
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

/// RFC 3339 in UTC, to the second.
fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    // Civil from days, for dates after 1970, with years that begin in March.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::rfc3339;
    use std::time::{Duration, SystemTime};

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(at(1_795_174_987), "2026-11-20T11:43:07Z");
    }
}
