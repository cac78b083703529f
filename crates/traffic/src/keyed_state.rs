//! State keyed by a text of the request: clients, consumers, what a `key` says.

use plugin::{Keyed, KeyedLimits, KeyedMetrics};
use sha2::{Digest as _, Sha256};
use telemetry::{Telemetry, families};

/// Longer keys are stored as their SHA-256, so that an entry has a bounded size.
const KEY_BYTES_MAX: usize = 64;

/// Changed keys that wait to be sent, at most.
const CHANGES_MAX: usize = 65_536;

/// A table of at most so many keys, counted under a name.
pub(crate) fn table<V>(telemetry: &Telemetry, name: &str, entries: u32) -> Keyed<V> {
    table_with(telemetry, name, entries, 0)
}

/// The same for state that other servers hear of.
pub(crate) fn changing_table<V>(telemetry: &Telemetry, name: &str, entries: u32) -> Keyed<V> {
    table_with(telemetry, name, entries, (entries as usize).min(CHANGES_MAX))
}

/// The same without metrics: for keys that another table counts.
pub(crate) fn uncounted_changing_table<V>(entries: u32) -> Keyed<V> {
    let changes = (entries as usize).min(CHANGES_MAX);
    Keyed::new(KeyedLimits { entries: entries as usize, changes }, KeyedMetrics::default())
}

fn table_with<V>(telemetry: &Telemetry, name: &str, entries: u32, changes: usize) -> Keyed<V> {
    let limits = KeyedLimits { entries: entries as usize, changes };
    let entries = telemetry.gauge(&families::STATE_ENTRIES, &[name]);
    let evictions = telemetry.counter(&families::STATE_EVICTIONS, &[name]);
    Keyed::new(limits, KeyedMetrics { entries, evictions })
}

/// Uses the value of a key of any length, which is made first if there is none.
pub(crate) fn with<V: Default, R>(table: &Keyed<V>, key: &[u8], using: impl FnOnce(&V) -> R) -> R {
    with_made(table, key, V::default, using)
}

/// The same with a value that `make` returns.
pub(crate) fn with_made<V, R>(
    table: &Keyed<V>,
    key: &[u8],
    make: impl FnOnce() -> V,
    using: impl FnOnce(&V) -> R,
) -> R {
    if key.len() > KEY_BYTES_MAX {
        return table.update(&Sha256::digest(key), make, using);
    }
    table.update(key, make, using)
}
