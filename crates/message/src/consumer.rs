//! The identity that a request was authenticated as.

use std::collections::BTreeMap;
use std::rc::Rc;

use settings::{Rate, Setting};

/// A client that has authenticated: its entry in `consumers`, or only a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consumer {
    pub name: Box<str>,
    pub groups: Vec<Box<str>>,
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// Limits of its own; `None` is common and takes no memory.
    pub limits: Option<Box<ConsumerLimits>>,
}

/// Limits of a consumer, for filters with `consumer_limits`.
#[derive(Clone, Debug, PartialEq, Eq, Setting)]
pub struct ConsumerLimits {
    /// The rate, in place of the `rate` of a `rate_limit`.
    #[setting(example = "100/s")]
    pub rate: Option<Rate>,
    /// The burst of that rate; without it as many requests as the rate allows in a second.
    #[setting(range = 1..=1000000, example = 50)]
    pub burst: Option<u32>,
    /// Quotas by the name of a filter `quota` or of `token_limits`, in place of its `limit`.
    #[setting(default = {}, example = { "monthly": 100000 })]
    pub quotas: BTreeMap<String, u32>,
}

impl Consumer {
    /// A consumer of which only the name is known.
    pub fn named(name: &str) -> Rc<Consumer> {
        Rc::new(Consumer { name: name.into(), ..Consumer::default() })
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| **label == *name).map(|(_, value)| &**value)
    }
}

/// The claims of a verified token as pairs of name and text. A list has a pair for each item; a
/// member of an object has the names on its path, joined by dots.
pub type Claims = Rc<[(Box<str>, Box<str>)]>;
