//! State keyed by a text of the request: clients, consumers, what a `key` says.

use plugin::{Keyed, KeyedLimits, KeyedMetrics};
use sha2::{Digest as _, Sha256};
use telemetry::{Telemetry, families};

/// Longer keys are stored as their SHA-256, so that an entry has a bounded size.
const KEY_BYTES_MAX: usize = 64;

/// A table of at most so many keys, counted under a name.
pub(crate) fn table<V>(telemetry: &Telemetry, name: &str, entries: u32) -> Keyed<V> {
    let limits = KeyedLimits { entries: entries as usize, changes: 0 };
    let entries = telemetry.gauge(&families::STATE_ENTRIES, &[name]);
    let evictions = telemetry.counter(&families::STATE_EVICTIONS, &[name]);
    Keyed::new(limits, KeyedMetrics { entries, evictions })
}

/// Uses the value of a key of any length, which is made first if there is none.
pub(crate) fn with<V: Default, R>(table: &Keyed<V>, key: &[u8], using: impl FnOnce(&V) -> R) -> R {
    if key.len() > KEY_BYTES_MAX {
        return table.update(&Sha256::digest(key), V::default, using);
    }
    table.update(key, V::default, using)
}
