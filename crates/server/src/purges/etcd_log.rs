//! The log of purges in etcd: a key for each entry, under the prefix of the configuration.

use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cache::shared_purges::{LogEntry, LogPosition, LogRead, NodeReport, PurgeEntry, remembered};
use etcd::messages::{
    Compare, CompareTarget, DeleteRangeRequest, KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseRevokeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp, RequestOpKind,
    ResponseOpKind, TxnRequest, TxnResponse, WatchCreateRequest, WatchResponse, prefix_end,
};
use etcd::{Etcd, EtcdError, PAUSE_MAX, Watch, WatchError};
use net::clock::{self, Moment};
use net::timer;

use super::applier::Applier;
use super::limits::{LOG_AGE, LOG_ENTRIES, PAGE};
use super::{Published, ServerList};
use crate::etcd_address::EtcdAddress;

/// The first pause after a failure.
const PAUSE: Duration = Duration::from_millis(200);
/// Purges of this server after which it looks for entries that are too old or too many.
const TRIM_EVERY: u32 = 32;
/// Entries that one transaction removes: etcd allows 128 operations.
const TRIMMED: usize = 100;
/// Transactions of one such look.
const TRIMS: usize = 10;
/// Values of `sort_target` and `sort_order`.
const BY_REVISION: i32 = 3;
const ASCENDING: i32 = 1;
const DESCENDING: i32 = 2;

pub(super) struct EtcdLog {
    etcd: Rc<Etcd>,
    address: EtcdAddress,
    node: String,
    alone: Duration,
    /// The lease of the key that says what this server has applied.
    lease: Cell<Option<i64>>,
    published: Cell<u32>,
}

impl EtcdLog {
    pub(super) fn new(
        etcd: Rc<Etcd>,
        address: &EtcdAddress,
        node: &str,
        alone: Duration,
    ) -> EtcdLog {
        let (address, node) = (address.clone(), node.to_owned());
        EtcdLog { etcd, address, node, alone, lease: Cell::new(None), published: Cell::new(0) }
    }

    pub(super) fn describe(&self) -> String {
        self.address.to_string()
    }

    pub(super) fn node(&self) -> &str {
        &self.node
    }

    /// Follows the log as long as it is polled.
    pub(super) async fn follow(&self, applier: &Applier) {
        let mut failures = 0;
        loop {
            if let Err(error) = self.follow_once(applier, &mut failures).await {
                applier.report(Some(error.to_string()));
            }
            timer::sleep(timer::pause(PAUSE, PAUSE_MAX, failures)).await;
            failures += 1;
        }
    }

    /// Follows the log until it has to be read again, or until etcd fails. Sets `failures` to zero
    /// once the log is followed.
    async fn follow_once(&self, applier: &Applier, failures: &mut u32) -> Result<(), EtcdError> {
        applier.join().await;
        let mut renewed = self.register(applier).await?;
        loop {
            let read = self.read(applier.position().as_ref()).await?;
            let has_more = read.has_more;
            applier.take(read).await;
            if !has_more {
                break;
            }
        }
        self.report(applier).await?;
        applier.report(None);
        *failures = 0;
        let mut watch = self.watch(applier);
        while applier.is_current() && !applier.is_to_join() {
            match timer::within(self.tick(), watch.next()).await {
                None => {}
                Some(Ok(response)) => {
                    if let Some(read) = self.changes(applier, &response) {
                        applier.take(read).await;
                        self.report(applier).await?;
                    }
                }
                // The entries are still there, unless they were too old.
                Some(Err(WatchError::Compacted(_))) => return Ok(()),
                Some(Err(WatchError::Refused(error))) => return Err(error),
            }
            applier.save();
            if clock::now().since(renewed) >= self.alone / 4 {
                renewed = self.register(applier).await?;
            }
        }
        Ok(())
    }

    /// The longest wait for a change: then the lease may have to be renewed.
    fn tick(&self) -> Duration {
        (self.alone / 8).min(Duration::from_secs(1))
    }

    /// Puts this server on the list, or renews its lease. Returns when the request was sent.
    async fn register(&self, applier: &Applier) -> Result<Moment, EtcdError> {
        let sent = clock::now();
        if let Some(id) = self.lease.get() {
            let renewed = self.etcd.lease_renew(&LeaseKeepAliveRequest { id }).await?;
            if renewed.ttl > 0 {
                applier.registered(sent.as_ms());
                return Ok(sent);
            }
            self.lease.set(None);
            applier.forgotten();
        }
        let ttl = i64::try_from(remembered(self.alone).as_secs()).unwrap_or(i64::MAX) + 1;
        let lease = self.etcd.lease_grant(&LeaseGrantRequest { ttl, id: 0 }).await?;
        self.lease.set(Some(lease.id));
        self.report(applier).await?;
        applier.registered(sent.as_ms());
        Ok(sent)
    }

    /// Writes up to which entry this server has applied everything.
    async fn report(&self, applier: &Applier) -> Result<(), EtcdError> {
        let Some(lease) = self.lease.get() else { return Ok(()) };
        let number = applier.position().map_or(0, |position| position.number);
        let key = format!("{}{}", self.address.purge_servers(), self.node).into();
        let value = number.to_string().into();
        let request = PutRequest { key, value, lease, ..PutRequest::default() };
        match self.etcd.put(&request).await {
            Err(error) if error.is_lease_ended() => {
                self.lease.set(None);
                applier.forgotten();
                Err(error)
            }
            result => result.map(drop),
        }
    }

    fn watch(&self, applier: &Applier) -> Watch {
        let prefix = self.address.purges();
        let next = applier.position().map_or(0, |position| position.number) + 1;
        let request = WatchCreateRequest {
            key: prefix.clone().into(),
            range_end: prefix_end(prefix.as_bytes()),
            start_revision: i64::try_from(next).unwrap_or(i64::MAX),
            ..WatchCreateRequest::default()
        };
        let observe = applier.observer();
        Watch::new(self.etcd.clone(), request).with_observer(move |error| {
            observe(error.map(|error| format!("purges are not received: {error}")));
        })
    }

    /// The entries of a message of the watch; `None` if it has none.
    fn changes(&self, applier: &Applier, response: &WatchResponse) -> Option<LogRead> {
        let puts = response.events.iter().filter(|event| !event.is_delete());
        let added: Vec<&KeyValue> = puts.filter_map(|event| event.kv.as_ref()).collect();
        let number = u64::try_from(added.last()?.mod_revision).ok()?;
        let entries = added.into_iter().map(|kv| self.entry(kv)).collect();
        let position = LogPosition { number, ..applier.position()? };
        Some(LogRead { entries, position, last: number, has_gap: false, has_more: false })
    }

    fn entry(&self, kv: &KeyValue) -> LogEntry {
        let key = String::from_utf8_lossy(&kv.key);
        let mark = key.rsplit('-').next().unwrap_or_default().to_owned();
        let number = u64::try_from(kv.mod_revision).unwrap_or(0);
        LogEntry { number, mark, purge: PurgeEntry::decode(&kv.value) }
    }

    /// Reads the entries after a position.
    async fn read(&self, from: Option<&LogPosition>) -> Result<LogRead, EtcdError> {
        let after = from.map_or(0, |position| position.number);
        let (prefix, floor) = (self.address.purges(), self.address.purge_floor());
        let entries = RangeRequest {
            key: prefix.clone().into(),
            range_end: prefix_end(prefix.as_bytes()),
            limit: PAGE as i64,
            sort_order: ASCENDING,
            sort_target: BY_REVISION,
            min_mod_revision: i64::try_from(after).unwrap_or(i64::MAX).saturating_add(1),
            ..RangeRequest::default()
        };
        let floor = RangeRequest { key: floor.into(), ..RangeRequest::default() };
        let last = RangeRequest {
            key: prefix.clone().into(),
            range_end: prefix_end(prefix.as_bytes()),
            limit: 1,
            sort_order: DESCENDING,
            sort_target: BY_REVISION,
            ..RangeRequest::default()
        };
        let (response, [entries, floor, last]) = self.ranges([entries, floor, last]).await?;
        let header = response.header.unwrap_or_default();
        let log = format!("etcd:{:x}:{}", header.cluster_id, self.address.purges());
        let revision = u64::try_from(header.revision).unwrap_or(0);
        let floor = floor.kvs.first().map_or(0, |kv| number(&kv.value));
        // What was removed since, or another cluster, or an older state of it.
        let has_gap = from
            .is_none_or(|from| from.log != log || from.number > revision || from.number < floor);
        let end = |range: &RangeResponse| {
            range.kvs.last().map_or(0, |kv| u64::try_from(kv.mod_revision).unwrap_or(0))
        };
        let has_more = entries.more && !has_gap;
        let number = if has_more { end(&entries) } else { revision };
        let last = if has_more { number } else { end(&last).max(floor) };
        let entries = match has_gap {
            true => Vec::new(),
            false => entries.kvs.iter().map(|kv| self.entry(kv)).collect(),
        };
        let position = LogPosition { log, number, mark: String::new() };
        Ok(LogRead { entries, position, last, has_gap, has_more })
    }

    /// Reads ranges at one revision.
    async fn ranges<const N: usize>(
        &self,
        ranges: [RangeRequest; N],
    ) -> Result<(TxnResponse, [RangeResponse; N]), EtcdError> {
        let success = ranges.map(|range| RequestOp::from(RequestOpKind::Range(range))).to_vec();
        let request = TxnRequest { success, ..TxnRequest::default() };
        let response = self.etcd.txn(&request).await?;
        let mut read: [RangeResponse; N] = std::array::from_fn(|_| RangeResponse::default());
        for (read, op) in read.iter_mut().zip(&response.responses) {
            if let Some(ResponseOpKind::Range(range)) = &op.response {
                *read = range.clone();
            }
        }
        Ok((response, read))
    }

    /// Writes an entry and returns its number.
    pub(super) async fn publish(&self, mark: &str, entry: &str) -> Result<u64, EtcdError> {
        let key = entry_key(&self.address, telemetry::timestamp::now_ms(), mark);
        let value = Bytes::copy_from_slice(entry.as_bytes());
        let request = PutRequest { key: key.into(), value, ..PutRequest::default() };
        let put = match self.etcd.put(&request).await {
            // Written twice it is one entry with a later number.
            Err(error) if error.is_passing() => self.etcd.put(&request).await?,
            put => put?,
        };
        self.published.set(self.published.get().wrapping_add(1));
        Ok(put.header.map_or(0, |header| u64::try_from(header.revision).unwrap_or(0)))
    }

    /// Removes entries that are too old or too many, from time to time.
    pub(super) async fn trim(&self) -> Result<(), EtcdError> {
        if self.published.get() < TRIM_EVERY {
            return Ok(());
        }
        self.published.set(0);
        let oldest = telemetry::timestamp::now_ms().saturating_sub(LOG_AGE.as_millis() as u64);
        for _ in 0..TRIMS {
            if !self.trim_some(oldest).await? {
                break;
            }
        }
        Ok(())
    }

    /// Removes some entries, and notes the number of the last of them; false if there are none.
    async fn trim_some(&self, oldest_ms: u64) -> Result<bool, EtcdError> {
        let prefix = self.address.purges();
        let request = RangeRequest {
            key: prefix.clone().into(),
            range_end: prefix_end(prefix.as_bytes()),
            limit: TRIMMED as i64,
            sort_order: ASCENDING,
            sort_target: BY_REVISION,
            keys_only: true,
            ..RangeRequest::default()
        };
        let response = self.etcd.range(&request).await?;
        let excess = usize::try_from(response.count).unwrap_or(0).saturating_sub(LOG_ENTRIES);
        let is_old = |kv: &KeyValue| written_ms(&kv.key, &prefix).is_none_or(|ms| ms < oldest_ms);
        let dropped: Vec<&KeyValue> = response
            .kvs
            .iter()
            .enumerate()
            .take_while(|(at, kv)| *at < excess || is_old(kv))
            .map(|(_, kv)| kv)
            .collect();
        let Some(last) = dropped.last() else { return Ok(false) };
        // Fails if another server removes them as well: the number never goes back.
        let compare = dropped.iter().map(|kv| {
            let revision = CompareTarget::ModRevision(kv.mod_revision);
            Compare::new(kv.key.clone(), Compare::EQUAL, revision)
        });
        let floor = PutRequest {
            key: self.address.purge_floor().into(),
            value: last.mod_revision.to_string().into(),
            ..PutRequest::default()
        };
        let delete = |kv: &&KeyValue| {
            let key = kv.key.clone();
            RequestOpKind::DeleteRange(DeleteRangeRequest { key, ..Default::default() }).into()
        };
        let mut success: Vec<RequestOp> = vec![RequestOpKind::Put(floor).into()];
        success.extend(dropped.iter().map(delete));
        let request = TxnRequest { compare: compare.collect(), success, failure: Vec::new() };
        Ok(self.etcd.txn(&request).await?.succeeded)
    }

    /// The servers that follow the log; those without a report in `status/` are not live.
    pub(super) async fn servers(&self, _: &Published) -> Result<ServerList, EtcdError> {
        let range = |prefix: &str, keys_only| RangeRequest {
            key: prefix.to_owned().into(),
            range_end: prefix_end(prefix.as_bytes()),
            keys_only,
            ..RangeRequest::default()
        };
        let (of_purges, of_status) = (self.address.purge_servers(), self.address.reports());
        let ranges = [range(&of_purges, false), range(&of_status, true)];
        let (_, [servers, reports]) = self.ranges(ranges).await?;
        let named = reports.kvs.iter().filter_map(|kv| kv.key.strip_prefix(of_status.as_bytes()));
        let live: HashSet<&[u8]> = named.collect();
        let report = |kv: &KeyValue| {
            let name = kv.key.strip_prefix(of_purges.as_bytes())?;
            Some(NodeReport {
                name: String::from_utf8_lossy(name).into_owned(),
                applied: number(&kv.value),
                is_live: live.contains(name),
            })
        };
        let nodes = servers.kvs.iter().filter_map(report).collect();
        Ok(ServerList { has_entry: true, lost: None, nodes })
    }

    /// Removes this server from those that are waited for: it ends.
    pub(super) async fn leave(&self) {
        if let Some(id) = self.lease.take() {
            // It ends by itself otherwise.
            let _ = self.etcd.lease_revoke(&LeaseRevokeRequest { id }).await;
        }
    }
}

/// The key of an entry: in the order of time, so that people can read them.
fn entry_key(address: &EtcdAddress, now_ms: u64, mark: &str) -> String {
    format!("{}{now_ms:013}-{mark}", address.purges())
}

/// When an entry was written, by the clock of its server.
fn written_ms(key: &[u8], prefix: &str) -> Option<u64> {
    let name = std::str::from_utf8(key.strip_prefix(prefix.as_bytes())?).ok()?;
    name.split('-').next()?.parse().ok()
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{entry_key, written_ms};

    #[test]
    fn keys_are_in_the_order_of_time() {
        let address = "etcd://a/shop".parse().unwrap();
        let key = |ms| entry_key(&address, ms, "0f");
        assert_eq!(key(7), "/shop/purges/log/0000000000007-0f");
        assert!(key(999) < key(1_700_000_000_000));
        assert_eq!(written_ms(key(7).as_bytes(), "/shop/purges/log/"), Some(7));
        assert_eq!(written_ms(b"/shop/purges/log/x", "/shop/purges/log/"), None);
    }
}
