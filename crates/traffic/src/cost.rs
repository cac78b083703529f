//! The cost of a request: the number of requests that it counts as.

use message::Request;
use plugin::Condition;
use settings::Setting;

/// The cost of some requests.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) struct Cost {
    /// Which requests.
    pub(crate) when: Condition,
    /// How many requests one of them counts as; 0 is not limited.
    #[setting(range = 0..=1000000, example = 10)]
    pub(crate) cost: u32,
}

/// True if a cost depends on what filters that authenticate set.
pub(crate) fn need_authentication(costs: &[Cost]) -> bool {
    costs.iter().any(|entry| entry.when.needs_authentication())
}

/// The cost of a request: that of the first entry whose condition holds, otherwise 1.
pub(crate) fn of(costs: &[Cost], request: &Request) -> u32 {
    costs.iter().find(|entry| entry.when.holds(request)).map_or(1, |entry| entry.cost)
}
