//! Consistent hashing: a ring of points, many for each server.
//!
//! Built when the set of servers changes, never per request, and shared by all workers. A key
//! belongs to the first server in rotation at or after its point, so a server that fails or leaves
//! moves only its own keys. Hashes do not change between runs or machines: two gateways agree.

use crate::limits::{RING_POINTS, RING_POINTS_MAX};

#[derive(Debug)]
pub(crate) struct Ring {
    /// Point and index of its server, by point.
    points: Vec<(u64, u32)>,
}

impl Ring {
    /// A ring of servers with their weights.
    pub(crate) fn new<'a>(servers: impl Iterator<Item = (&'a str, u32)> + Clone) -> Ring {
        let weights: usize = servers.clone().map(|(_, weight)| weight as usize).sum();
        let per_weight = (RING_POINTS_MAX / weights.max(1)).clamp(1, RING_POINTS);
        let mut points = Vec::with_capacity(weights.saturating_mul(per_weight));
        for (index, (name, weight)) in servers.enumerate() {
            let seed = hash(name.as_bytes());
            let count = (weight as usize * per_weight).min(RING_POINTS_MAX);
            points.extend((0..count).map(|point| {
                (mix(seed ^ mix(point as u64 + 1)), u32::try_from(index).unwrap_or(u32::MAX))
            }));
        }
        points.sort_unstable();
        Ring { points }
    }

    /// The first server for a key that is `open`.
    pub(crate) fn find(&self, key: u64, mut open: impl FnMut(usize) -> bool) -> Option<usize> {
        let from = self.points.partition_point(|(place, _)| *place < key);
        let (before, after) = self.points.split_at(from);
        let mut refused = None;
        for (_, index) in after.iter().chain(before) {
            // Adjacent points often belong to one server: `open` is called once for them.
            if refused != Some(*index) {
                if open(*index as usize) {
                    return Some(*index as usize);
                }
                refused = Some(*index);
            }
        }
        None
    }
}

/// FNV-1a, mixed: for short keys, without a seed, the same everywhere.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    mix(hash)
}

/// The finaliser of SplitMix64: every bit depends on every bit.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Ring, hash};

    const KEYS: usize = 20_000;

    fn owners(servers: &[(&str, u32)], closed: Option<usize>) -> Vec<String> {
        let ring = Ring::new(servers.iter().copied());
        (0..KEYS)
            .map(|key| {
                let at = ring.find(hash(format!("user-{key}").as_bytes()), |s| Some(s) != closed);
                servers[at.unwrap()].0.to_owned()
            })
            .collect()
    }

    fn share(owners: &[String], server: &str) -> f64 {
        owners.iter().filter(|owner| *owner == server).count() as f64 / owners.len() as f64
    }

    #[test]
    fn shares_follow_weights() {
        let owners = owners(&[("a:1", 1), ("b:1", 1), ("c:1", 2)], None);
        for (server, expected) in [("a:1", 0.25), ("b:1", 0.25), ("c:1", 0.5)] {
            let share = share(&owners, server);
            assert!((share - expected).abs() < 0.06, "{server} has {share}");
        }
    }

    #[test]
    fn a_server_that_leaves_moves_only_its_own_keys() {
        let all = [("a:1", 1), ("b:1", 1), ("c:1", 1), ("d:1", 1)];
        let before = owners(&all, None);
        let closed = owners(&all, Some(2));
        let left = owners(&[all[0], all[1], all[3]], None);
        assert_eq!(closed, left);
        for (before, after) in before.iter().zip(&left) {
            assert!(before == after || before == "c:1", "a key of {before} moved to {after}");
            assert_ne!(after, "c:1");
        }
    }

    #[test]
    fn a_server_that_joins_takes_only_its_share() {
        let before = owners(&[("a:1", 1), ("b:1", 1), ("c:1", 1)], None);
        let after = owners(&[("a:1", 1), ("b:1", 1), ("c:1", 1), ("d:1", 1)], None);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        let share = moved as f64 / KEYS as f64;
        assert!((0.15..0.35).contains(&share), "{share} of the keys moved");
        for (before, after) in before.iter().zip(&after) {
            assert!(before == after || after == "d:1", "{before} moved to {after}");
        }
    }

    #[test]
    fn points_are_the_same_everywhere() {
        // Another gateway, or this one after an update, must find the same server.
        assert_eq!(hash(b"user-1"), hash(b"user-1"));
        assert_eq!(hash(b""), 0xc381_7c01_6ba4_ff30);
    }

    #[test]
    fn without_an_open_server_none_is_found() {
        let ring = Ring::new([("a:1", 1)].into_iter());
        assert_eq!(ring.find(7, |_| false), None);
        assert_eq!(Ring::new(std::iter::empty()).find(7, |_| true), None);
    }
}
