//! The log of the simulation.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;

use super::{ENTRIES, PAGE, REMEMBERED_MS};
use crate::shared_purges::{LogEntry, LogPosition, LogRead, NodeReport, PurgeEntry};

/// The log, as the scripts in Redis keep it.
#[derive(Default)]
pub(super) struct Log {
    id: String,
    entries: VecDeque<(u64, String, Option<PurgeEntry>)>,
    nodes: BTreeMap<usize, (u64, u64)>,
    /// When a server has noticed that an earlier log was lost.
    lost_at: Option<u64>,
}

impl Log {
    pub(super) fn append(&mut self, now: u64, mark: String, entry: Option<PurgeEntry>) -> u64 {
        let last = self.entries.back().map_or(0, |(number, ..)| *number);
        let number = now.max(last + 1);
        self.entries.push_back((number, mark, entry));
        if self.entries.len() > ENTRIES {
            self.entries.pop_front();
        }
        number
    }

    pub(super) fn poll(
        &mut self,
        node: usize,
        position: Option<&LogPosition>,
        now: u64,
        rng: &mut Rng,
    ) -> LogRead {
        if self.id.is_empty() {
            self.id = rng.u64(..).to_string();
        }
        if position.is_some_and(|position| position.log != self.id) {
            self.lost_at.get_or_insert(now);
        }
        let log = self.id.clone();
        let at = |number: u64, mark: &str| LogPosition {
            log: log.clone(),
            number,
            mark: mark.to_owned(),
        };
        let known = position.and_then(|position| {
            let is_it = |(number, mark, _): &(u64, String, _)| {
                *number == position.number && *mark == position.mark
            };
            Some((self.entries.iter().position(is_it)?, position))
        });
        let Some((index, position)) = known else {
            if self.entries.is_empty() {
                self.append(now, rng.u64(..).to_string(), None);
            }
            self.nodes.insert(node, (0, now));
            let (number, mark, _) = self.entries.back().unwrap();
            let position = at(*number, mark);
            let (entries, last) = (Vec::new(), position.number);
            return LogRead { entries, position, last, has_gap: true, has_more: false };
        };
        self.nodes.insert(node, (position.number, now));
        let after: Vec<_> = self.entries.iter().skip(index + 1).take(PAGE).collect();
        let end = after.last().map_or(position.clone(), |(number, mark, _)| at(*number, mark));
        LogRead {
            entries: after
                .iter()
                .map(|(number, mark, purge)| LogEntry {
                    number: *number,
                    mark: mark.clone(),
                    purge: purge.clone(),
                })
                .collect(),
            last: end.number,
            position: end,
            has_gap: false,
            has_more: index + 1 + after.len() < self.entries.len(),
        }
    }

    /// The servers of the list; `None` if the entry is gone, or servers may be missing.
    pub(super) fn reports(&mut self, number: u64, mark: &str, now: u64) -> Option<Vec<NodeReport>> {
        if self.lost_at.is_some_and(|lost_at| now - lost_at <= REMEMBERED_MS) {
            return None;
        }
        self.entries.iter().find(|(known, other, _)| *known == number && other == mark)?;
        self.nodes.retain(|_, (_, at)| now - *at <= REMEMBERED_MS);
        let report = |(node, (applied, _)): (&usize, &(u64, u64))| NodeReport {
            name: node.to_string(),
            applied: *applied,
            is_live: true,
        };
        Some(self.nodes.iter().map(report).collect())
    }
}
