//! Traces as examples of durations: for each bucket of a route's histogram the latest request that
//! was recorded and exported.
//!
//! Written by the exporter on the control thread, so that requests pay nothing for it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::escape::cut;
use crate::histogram::{BUCKETS, bucket};
use crate::limits::{LABEL_BYTES, SERIES_PER_FAMILY};

/// A request that stands for others of its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exemplar {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    pub value_us: u64,
    pub unix_ms: u64,
}

/// By bucket; those without an example are `None`.
pub type BucketExemplars = [Option<Exemplar>; BUCKETS];

/// The examples of all routes. Those of at most [`SERIES_PER_FAMILY`] routes are stored: a further
/// route replaces the one whose latest example is the oldest.
#[derive(Debug, Default)]
pub struct Exemplars {
    routes: Mutex<BTreeMap<String, Box<BucketExemplars>>>,
}

impl Exemplars {
    fn routes(&self) -> MutexGuard<'_, BTreeMap<String, Box<BucketExemplars>>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the example of the duration's bucket.
    pub fn record(&self, route: &str, exemplar: Exemplar) {
        let route = cut(route, LABEL_BYTES);
        let mut routes = self.routes();
        if let Some(buckets) = routes.get_mut(route) {
            buckets[bucket(exemplar.value_us)] = Some(exemplar);
            return;
        }
        if routes.len() >= SERIES_PER_FAMILY {
            let latest = |buckets: &BucketExemplars| {
                buckets.iter().flatten().map(|exemplar| exemplar.unix_ms).max()
            };
            let oldest = routes.iter().min_by_key(|(_, buckets)| latest(buckets));
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                routes.remove(&oldest);
            }
        }
        let mut buckets = Box::new([None; BUCKETS]);
        buckets[bucket(exemplar.value_us)] = Some(exemplar);
        routes.insert(route.to_owned(), buckets);
    }

    /// The examples of a route, if there are any.
    pub fn of_route(&self, route: &str) -> Option<BucketExemplars> {
        self.routes().get(route).map(|buckets| **buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::{Exemplar, Exemplars};
    use crate::limits::SERIES_PER_FAMILY;

    fn exemplar(value_us: u64, unix_ms: u64) -> Exemplar {
        Exemplar { trace_id: [1; 16], span_id: [2; 8], value_us, unix_ms }
    }

    #[test]
    fn the_latest_request_of_a_bucket_is_its_example() {
        let exemplars = Exemplars::default();
        exemplars.record("a", exemplar(150, 1));
        exemplars.record("a", exemplar(190, 2));
        exemplars.record("a", exemplar(70_000_000, 3));
        let of_a = exemplars.of_route("a").unwrap();
        let found: Vec<_> = of_a.iter().flatten().map(|each| each.value_us).collect();
        assert_eq!(found, [190, 70_000_000]);
        assert!(of_a[1].is_some() && exemplars.of_route("b").is_none());
    }

    #[test]
    fn the_number_of_routes_is_bounded() {
        let exemplars = Exemplars::default();
        for index in 0..=SERIES_PER_FAMILY {
            exemplars.record(&format!("r{index}"), exemplar(1, 10 + index as u64));
        }
        assert_eq!(exemplars.routes().len(), SERIES_PER_FAMILY);
        assert!(exemplars.of_route("r0").is_none() && exemplars.of_route("r1").is_some());
    }
}
