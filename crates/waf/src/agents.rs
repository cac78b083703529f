//! Values of `User-Agent` that match no rule, which are not inspected again.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

/// Values that are remembered, at most one for each place of the table.
const AGENTS: usize = 64;
/// A longer value is inspected every time.
const AGENT_BYTES_MAX: usize = 512;

/// Recent harmless values: most requests to a server come from few kinds of clients.
///
/// A newer value replaces the one at its place. Values are compared whole, so a hash that clients
/// provoke only costs another inspection.
pub(crate) struct HarmlessAgents {
    hasher: RandomState,
    values: Vec<Box<[u8]>>,
}

impl HarmlessAgents {
    pub(crate) fn new() -> HarmlessAgents {
        HarmlessAgents {
            hasher: RandomState::default(),
            values: (0..AGENTS).map(|_| Box::default()).collect(),
        }
    }

    pub(crate) fn contains(&self, value: &[u8]) -> bool {
        value.len() <= AGENT_BYTES_MAX && *self.values[self.slot(value)] == *value
    }

    pub(crate) fn remember(&mut self, value: &[u8]) {
        if value.len() <= AGENT_BYTES_MAX {
            let place = self.slot(value);
            self.values[place] = value.into();
        }
    }

    fn slot(&self, value: &[u8]) -> usize {
        self.hasher.hash_one(value) as usize % AGENTS
    }
}

#[cfg(test)]
mod tests {
    use super::{AGENT_BYTES_MAX, AGENTS, HarmlessAgents};

    #[test]
    fn values_are_remembered_whole_and_their_number_is_bounded() {
        let mut agents = HarmlessAgents::new();
        assert!(!agents.contains(b"curl/8"));
        agents.remember(b"curl/8");
        assert!(agents.contains(b"curl/8") && !agents.contains(b"curl/8.1"));
        let long = vec![b'a'; AGENT_BYTES_MAX + 1];
        agents.remember(&long);
        assert!(!agents.contains(&long));
        let many: Vec<String> = (0..10 * AGENTS).map(|n| format!("agent/{n}")).collect();
        many.iter().for_each(|agent| agents.remember(agent.as_bytes()));
        let kept = many.iter().filter(|agent| agents.contains(agent.as_bytes())).count();
        assert!((1..=AGENTS).contains(&kept), "{kept}");
    }
}
