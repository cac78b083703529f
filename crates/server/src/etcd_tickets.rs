//! Keys of session tickets that the servers of a fleet share in etcd.
//!
//! Promises that every server resumes the sessions of every other, also while keys are replaced: a
//! key is in etcd for a whole rotation before it encrypts, and as long as tickets live after its
//! last one. One server at a time adds a key, under a lock that is a lease of etcd, so that no
//! clock of a server decides. Without etcd the last keys stay in use; they are never on disk.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use config::ServerPlan;
use etcd::messages::{
    Compare, CompareTarget, KeyValue, LeaseGrantRequest, LeaseRevokeRequest, PutRequest,
    RangeRequest, RangeResponse, RequestOp, RequestOpKind, TxnRequest, WatchCreateRequest,
    prefix_end,
};
use etcd::{Etcd, EtcdError, PAUSE_MAX, Watch, WatchError};
use net::timer;
use net::tls::{TICKET_KEY_BYTES_MIN, TICKET_LIFETIME_SECS, random_ticket_key, share_ticket_keys};
use telemetry::log::Level;
use telemetry::{SharedGauge, event, families};

use crate::certificates::terminating_tls;
use crate::control::Control;

/// How long a key encrypts, in seconds: as long as the lock of the server that has added the next.
const ROTATION_S: i64 = 6 * 60 * 60;
/// How long a key is in etcd: before its use, in use, and until its last ticket has expired.
const KEY_S: i64 = 2 * ROTATION_S + TICKET_LIFETIME_SECS as i64;
/// Until a server that finds no lock takes it, at most: most servers of a large fleet see within
/// that time that another one has it.
const TAKES_LOCK_WITHIN: Duration = Duration::from_secs(2);
/// The first pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);
/// Keys that are used, and bytes of each: whatever else writes to etcd.
const KEYS_MAX: usize = 16;
const KEY_BYTES_MAX: usize = 1024;

/// Shares the keys from the first plan on that has a listener with TLS and without key files.
pub(crate) async fn share(control: Rc<Control>, etcd: Rc<Etcd>, prefix: String, node: String) {
    let mut plans = control.plan_changed.subscribe();
    while !uses_shared_keys(&control.plan()) {
        if plans.changed().await.is_err() {
            return;
        }
    }
    let count = control.telemetry.gauge(&families::TLS_SHARED_TICKET_KEYS, &[]);
    let mut keys = TicketKeySync { etcd, prefix, node, used: Vec::new(), count, is_failing: false };
    keys.run().await;
}

fn uses_shared_keys(plan: &ServerPlan) -> bool {
    terminating_tls(plan).any(|(_, tls)| tls.options().ticket_keys.is_empty())
}

struct TicketKeySync {
    etcd: Rc<Etcd>,
    /// Ends with a slash.
    prefix: String,
    node: String,
    /// The contents of the keys that listeners have.
    used: Vec<Vec<u8>>,
    count: Arc<SharedGauge>,
    is_failing: bool,
}

impl TicketKeySync {
    async fn run(&mut self) {
        let mut failures = 0;
        loop {
            match self.follow().await {
                // Revisions were compacted: the keys are read again.
                Ok(()) => failures = 0,
                Err(error) => self.failed(&error),
            }
            timer::sleep(timer::pause(PAUSE, PAUSE_MAX, failures)).await;
            failures += 1;
        }
    }

    /// Reads the keys after each change of them, and adds one if it is time, until a watch ends.
    async fn follow(&mut self) -> Result<(), EtcdError> {
        let mut present = self.fetch().await?;
        let start_revision = present.header.map_or(0, |header| header.revision) + 1;
        let (key, range_end) = self.range();
        let request =
            WatchCreateRequest { key, range_end, start_revision, ..WatchCreateRequest::default() };
        let mut watch = Watch::new(self.etcd.clone(), request);
        loop {
            self.adopt(&present);
            let next = match self.is_locked(&present) {
                true => {
                    self.is_failing = false;
                    Some(watch.next().await)
                }
                false => {
                    let span = timer::pause(TAKES_LOCK_WITHIN, TAKES_LOCK_WITHIN, 0);
                    // Without keys nothing is shared until one server has made them.
                    let span = if self.used.is_empty() { Duration::ZERO } else { span };
                    timer::within(span, watch.next()).await
                }
            };
            match next {
                Some(Ok(_)) => {}
                Some(Err(WatchError::Compacted(_))) => return Ok(()),
                Some(Err(WatchError::Refused(error))) => return Err(error),
                None => self.rotate(&present).await?,
            }
            present = self.fetch().await?;
        }
    }

    fn range(&self) -> (Bytes, Bytes) {
        let prefix = self.prefix.as_bytes();
        (Bytes::copy_from_slice(prefix), prefix_end(prefix))
    }

    async fn fetch(&self) -> Result<RangeResponse, EtcdError> {
        let (key, range_end) = self.range();
        self.etcd.range(&RangeRequest { key, range_end, ..RangeRequest::default() }).await
    }

    fn lock_key(&self) -> String {
        format!("{}lock", self.prefix)
    }

    fn keys_prefix(&self) -> String {
        format!("{}keys/", self.prefix)
    }

    fn keys(&self, present: &RangeResponse) -> Vec<Vec<u8>> {
        in_order(&present.kvs, &self.keys_prefix())
    }

    fn is_locked(&self, present: &RangeResponse) -> bool {
        present.kvs.iter().any(|kv| kv.key == self.lock_key())
    }

    /// Gives the keys to the listeners.
    fn adopt(&mut self, present: &RangeResponse) {
        let keys = self.keys(present);
        // An etcd that has lost its data gets new ones soon.
        if keys.is_empty() || keys == self.used {
            return;
        }
        if let Err(error) = share_ticket_keys(keys.clone()) {
            let message = "keys of session tickets cannot be used, the last ones stay in use";
            event!(Level::Error, message, event = "ticket_keys_unusable", error = error);
            return;
        }
        let count = keys.len();
        self.count.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.used = keys;
        let message = "keys of session tickets were received from etcd";
        event!(Level::Info, message, event = "ticket_keys_received", keys = count);
    }

    /// Adds the key of the next rotation unless another server takes the lock first.
    async fn rotate(&self, present: &RangeResponse) -> Result<(), EtcdError> {
        // The first time also the one that encrypts now.
        let count = if self.keys(present).is_empty() { 2 } else { 1 };
        let contents: Option<Vec<_>> = (0..count).map(|_| random_ticket_key()).collect();
        let Some(contents) = contents else {
            // The kernel has no randomness yet.
            timer::sleep(PAUSE_MAX).await;
            return Ok(());
        };
        let lock = self.grant(ROTATION_S).await?;
        let added = match self.grant(KEY_S).await {
            Ok(lease) => {
                let added = self.add(&contents, lease, lock).await;
                if !matches!(added, Ok(true)) {
                    self.revoke(lease).await;
                }
                added
            }
            Err(error) => Err(error),
        };
        if !matches!(added, Ok(true)) {
            self.revoke(lock).await;
        }
        added.map(drop)
    }

    /// Adds keys and takes the lock, each with a lease; false if another server has it.
    async fn add(
        &self,
        contents: &[[u8; TICKET_KEY_BYTES_MIN]],
        lease: i64,
        lock: i64,
    ) -> Result<bool, EtcdError> {
        let is_free = CompareTarget::CreateRevision(0);
        let compare = vec![Compare::new(self.lock_key(), Compare::EQUAL, is_free)];
        let node = Bytes::copy_from_slice(self.node.as_bytes());
        let mut success = vec![put(self.lock_key(), node, lock)];
        for (number, content) in contents.iter().enumerate() {
            let key = format!("{}{lease:016x}-{number}", self.keys_prefix());
            success.push(put(key, Bytes::copy_from_slice(content), lease));
        }
        let request = TxnRequest { compare, success, failure: Vec::new() };
        Ok(self.etcd.txn(&request).await?.succeeded)
    }

    async fn grant(&self, ttl: i64) -> Result<i64, EtcdError> {
        Ok(self.etcd.lease_grant(&LeaseGrantRequest { ttl, id: 0 }).await?.id)
    }

    async fn revoke(&self, id: i64) {
        // It ends by itself otherwise.
        let _ = self.etcd.lease_revoke(&LeaseRevokeRequest { id }).await;
    }

    fn failed(&mut self, error: &EtcdError) {
        if !std::mem::replace(&mut self.is_failing, true) {
            event!(
                Level::Warn,
                "keys of session tickets cannot be shared, the last ones stay in use",
                event = "ticket_keys_alone",
                keys = self.used.len(),
                error = error
            );
        }
    }
}

fn put(key: String, value: Bytes, lease: i64) -> RequestOp {
    let put = PutRequest { key: key.into(), value, lease, ..PutRequest::default() };
    RequestOpKind::Put(put).into()
}

/// The contents of keys: first the one that encrypts. That is the newest but one: the newest is for
/// the next rotation, so that a server that learns of it late can read all tickets until then.
fn in_order(kvs: &[KeyValue], prefix: &str) -> Vec<Vec<u8>> {
    let is_key = |kv: &&KeyValue| {
        let sizes = TICKET_KEY_BYTES_MIN..=KEY_BYTES_MAX;
        kv.key.starts_with(prefix.as_bytes()) && sizes.contains(&kv.value.len())
    };
    let mut keys: Vec<&KeyValue> = kvs.iter().filter(is_key).collect();
    keys.sort_by(|a, b| (b.create_revision, &b.key).cmp(&(a.create_revision, &a.key)));
    keys.truncate(KEYS_MAX);
    if keys.len() > 1 {
        keys.swap(0, 1);
    }
    keys.into_iter().map(|kv| kv.value.to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(key: &str, create_revision: i64, content: u8, bytes: usize) -> KeyValue {
        let (key, value) = (key.to_owned().into(), vec![content; bytes].into());
        KeyValue { key, create_revision, value, ..KeyValue::default() }
    }

    #[test]
    fn the_newest_key_but_one_encrypts() {
        let used = |kvs: &[KeyValue]| -> Vec<u8> {
            in_order(kvs, "/p/tickets/keys/").iter().map(|content| content[0]).collect()
        };
        let key = |name: &str, revision, content| {
            stored(&format!("/p/tickets/keys/{name}"), revision, content, 32)
        };
        assert_eq!(used(&[]), [0; 0]);
        assert_eq!(used(&[key("a", 7, 1)]), [1]);
        // The first two are of one transaction; names of later ones may sort before them.
        let first = [key("b-0", 7, 1), key("b-1", 7, 2)];
        assert_eq!(used(&first), [1, 2]);
        let second = [&[key("a-0", 9, 3)][..], &first].concat();
        assert_eq!(used(&second), [2, 3, 1]);
        let third = [&[key("c-0", 11, 4)][..], &second].concat();
        assert_eq!(used(&third), [3, 4, 2, 1]);
    }

    #[test]
    fn what_is_not_a_key_is_not_used() {
        let many: Vec<KeyValue> = (0..=KEYS_MAX)
            .map(|number| stored(&format!("/p/keys/{number:02}"), 7, 1, 32))
            .collect();
        assert_eq!(in_order(&many, "/p/keys/").len(), KEYS_MAX);
        for (key, bytes) in [("/p/lock", 32), ("/p/keys/a", 31), ("/p/keys/a", KEY_BYTES_MAX + 1)] {
            assert_eq!(in_order(&[stored(key, 7, 1, bytes)], "/p/keys/").len(), 0, "{key} {bytes}");
        }
    }
}
