//! The quotas of a process, for the admin API: reading and resetting the count of one key.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::period::{Calendar, Period, Zone};
use super::stored_table::StoredTable;
use super::table::Fingerprint;
use crate::request_key::RequestKey;

/// The quotas in use: there is one such register, under the key `()` of `plugin::Shared`.
#[derive(Default)]
pub struct Quotas {
    by_name: Mutex<BTreeMap<String, Registered>>,
}

#[derive(Clone)]
pub(super) struct Registered {
    pub(super) table: Weak<StoredTable>,
    pub(super) limit: u32,
    pub(super) period: Period,
    pub(super) zone: Zone,
    pub(super) key: settings::Key,
    pub(super) ipv6_prefix: u8,
}

/// A quota that is in use.
#[derive(Debug, PartialEq, Eq)]
pub struct QuotaInfo {
    pub name: String,
    /// The limit of keys without a limit of their own.
    pub limit: u32,
    /// `day`, `week`, `month` or a length of time.
    pub period: String,
    /// The key of the counts.
    pub key: String,
}

/// The count of one key.
#[derive(Debug, PartialEq, Eq)]
pub struct QuotaUse {
    pub used: u32,
    /// When the period ends, in seconds since 1970.
    pub period_end_s: u64,
}

impl Quotas {
    /// Replaces what was known of a name.
    pub(super) fn register(&self, name: &str, quota: Registered) {
        let mut quotas = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        quotas.retain(|_, known| known.table.strong_count() > 0);
        quotas.insert(name.to_owned(), quota);
    }

    fn find(&self, name: &str) -> Option<(Arc<StoredTable>, Registered)> {
        let quotas = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let found = quotas.get(name)?;
        Some((found.table.upgrade()?, found.clone()))
    }

    /// All of them by name.
    pub fn list(&self) -> Vec<QuotaInfo> {
        let quotas = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let living = quotas.iter().filter(|(_, quota)| quota.table.strong_count() > 0);
        living
            .map(|(name, quota)| QuotaInfo {
                name: name.clone(),
                limit: quota.limit,
                period: quota.period.to_string(),
                key: quota.key.to_string(),
            })
            .collect()
    }

    /// The count of a key at a time; `None` if there is no such quota, or it has no file.
    pub fn read(&self, name: &str, key: &str, now_s: u64) -> Option<QuotaUse> {
        let (table, quota) = self.find(name)?;
        let calendar = Calendar::new(quota.period, &quota.zone);
        let (used, period_end_s) = table.get()?.used(quota.fingerprint(key), calendar.at(now_s));
        Some(QuotaUse { used, period_end_s })
    }

    /// Sets the count of a key to zero; false if there is no such quota, or it has no file.
    pub fn reset(&self, name: &str, key: &str) -> bool {
        let Some((table, quota)) = self.find(name) else { return false };
        let table = table.get();
        table.inspect(|table| table.reset(quota.fingerprint(key))).is_some()
    }
}

impl Registered {
    fn fingerprint(&self, key: &str) -> Fingerprint {
        RequestKey::new(&self.key, self.ipv6_prefix).with_text(key, Fingerprint::of)
    }
}
