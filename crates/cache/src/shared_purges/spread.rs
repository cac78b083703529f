//! Which servers have applied a purge.

/// What the log knows about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    pub name: String,
    /// Everything up to this number was applied.
    pub applied: u64,
    /// False if the server was not heard of recently: it may have ended, or serve without the log.
    pub is_live: bool,
}

/// The servers that have applied a purge, and those that have not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PurgeSpread {
    pub applied: Vec<String>,
    pub missing: Vec<NodeReport>,
}

impl PurgeSpread {
    /// Compares what the servers have applied with the number of a purge.
    pub fn of(nodes: Vec<NodeReport>, number: u64) -> PurgeSpread {
        let mut spread = PurgeSpread::default();
        for node in nodes {
            match node.applied >= number {
                true => spread.applied.push(node.name),
                false => spread.missing.push(node),
            }
        }
        spread.applied.sort_unstable();
        spread.missing.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        spread
    }

    /// True if waiting does not help: all servers that can be reached have applied the purge. The
    /// one that published it is one of them.
    pub fn is_complete(&self) -> bool {
        !self.applied.is_empty() && self.missing.iter().all(|node| !node.is_live)
    }

    /// True if no server can serve what was purged.
    pub fn is_confirmed(&self) -> bool {
        !self.applied.is_empty() && self.missing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{NodeReport, PurgeSpread};

    #[test]
    fn servers_that_are_away_are_listed_and_not_waited_for() {
        let node = |name: &str, applied, is_live| {
            let name = name.to_owned();
            NodeReport { name, applied, is_live }
        };
        let spread = PurgeSpread::of(vec![node("b", 7, true), node("a", 8, true)], 7);
        assert_eq!(spread.applied, ["a", "b"]);
        assert!(spread.is_complete() && spread.is_confirmed());
        let spread = PurgeSpread::of(vec![node("b", 7, true), node("a", 6, true)], 7);
        assert!(!spread.is_complete() && !spread.is_confirmed());
        let spread = PurgeSpread::of(vec![node("b", 7, true), node("a", 6, false)], 7);
        assert!(spread.is_complete() && !spread.is_confirmed());
        // A log without servers has been lost.
        assert!(!PurgeSpread::of(Vec::new(), 7).is_complete());
        assert!(!PurgeSpread::of(Vec::new(), 7).is_confirmed());
    }
}
