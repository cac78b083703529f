//! The table behind `shared`: small values with an optional expiry, for all VMs of a program.
//!
//! Uses the keyed state of `plugin`: limited in size, and a hit takes no exclusive lock except
//! the entry's own. Promises that `add` loses no count, that expired entries are not returned, and
//! that a full table evicts the least used entries.

use std::sync::{Mutex, MutexGuard, PoisonError};

use plugin::{Keyed, KeyedLimits, KeyedMetrics};

use crate::limits::SHARED_ENTRIES;
use lua_vm::timers::now_ms;

/// The shared table of a server or program.
pub struct SharedTable(Keyed<Mutex<Entry>>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Entry {
    value: SharedValue,
    /// Expiry on the clock of timers; 0 for never.
    until_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum SharedValue {
    #[default]
    Nothing,
    Integer(i64),
    Number(f64),
    Boolean(bool),
    Bytes(Box<[u8]>),
}

impl Default for SharedTable {
    fn default() -> SharedTable {
        let limits = KeyedLimits { entries: SHARED_ENTRIES, changes: 0 };
        SharedTable(Keyed::new(limits, KeyedMetrics::default()))
    }
}

impl Entry {
    fn expire(&mut self) {
        if self.until_ms != 0 && self.until_ms <= now_ms() {
            *self = Entry::default();
        }
    }
}

fn lock(entry: &Mutex<Entry>) -> MutexGuard<'_, Entry> {
    let mut entry = entry.lock().unwrap_or_else(PoisonError::into_inner);
    entry.expire();
    entry
}

impl SharedTable {
    pub(crate) fn get(&self, key: &[u8]) -> SharedValue {
        self.0.peek(key, |entry| lock(entry).value.clone()).unwrap_or_default()
    }

    pub(crate) fn set(&self, key: &[u8], value: SharedValue, until_ms: u64) {
        if value == SharedValue::Nothing {
            self.0.remove(key);
            return;
        }
        self.0.with(key, Mutex::default, |entry| *lock(entry) = Entry { value, until_ms });
    }

    /// Removes an entry; false if there was none.
    pub(crate) fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(key)
    }

    /// Adds to a counter; a new one expires then. `None` if the entry is not a counter.
    pub(crate) fn add(&self, key: &[u8], by: i64, until_ms: u64) -> Option<i64> {
        self.0.with(key, Mutex::default, |entry| {
            let mut entry = lock(entry);
            let sum = match entry.value {
                SharedValue::Nothing => {
                    entry.until_ms = until_ms;
                    by
                }
                SharedValue::Integer(number) => number.wrapping_add(by),
                _ => return None,
            };
            entry.value = SharedValue::Integer(sum);
            Some(sum)
        })
    }
}
