//! Accounts, certificates and challenges that the servers of a fleet share in etcd.
//!
//! Promises that one server at a time obtains a certificate, under a lock that ends with it; that
//! all servers respond to the challenges of that one; and that a certificate replaces only an older
//! one. The files of each server stay what it presents: without etcd nothing changes.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd::messages::{
    Compare, CompareTarget, DeleteRangeRequest, LeaseGrantRequest, LeaseRevokeRequest, PutRequest,
    RangeRequest, RequestOpKind, TxnRequest, WatchCreateRequest, WatchResponse, prefix_end,
};
use etcd::{Etcd, EtcdError, PAUSE_MAX, Watch};
use net::task::JoinHandle;
use net::timer;
use net::tls::{CertificateKey, ChallengeCertificate};
use tls_settings::AcmePlan;
use tokio::sync::watch;

use crate::challenges::{HttpChallenges, HttpResponse, challenge_certificate};
use crate::error::IssueError;
use crate::storage;

/// How long a lock outlives a server that vanishes, in seconds.
const LOCK_S: i64 = 30;
/// The time that the other servers have to learn of a challenge.
const PROPAGATION: Duration = Duration::from_secs(1);
/// The first pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);
/// Challenges of other servers at one time.
const CHALLENGES_MAX: usize = 1000;

/// The part of etcd that has the accounts, certificates and challenges of a fleet.
pub(crate) struct SharedStorage {
    etcd: Rc<Etcd>,
    /// Ends with a slash.
    prefix: String,
    /// Counts the changes of stored files.
    changes: watch::Sender<u64>,
}

/// Held by the one server that obtains a certificate.
pub(crate) struct FleetLock {
    etcd: Rc<Etcd>,
    lease: i64,
    key: String,
    keeper: JoinHandle<EtcdError>,
}

impl FleetLock {
    /// Gives it up, and removes the challenges that were published with it.
    pub(crate) async fn release(self) {
        // It ends by itself otherwise.
        let _ = self.etcd.lease_revoke(&LeaseRevokeRequest { id: self.lease }).await;
    }
}

impl Drop for FleetLock {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Challenges of all servers, as this one has them from etcd.
#[derive(Default)]
struct Challenges(BTreeMap<String, PresentedChallenge>);

enum PresentedChallenge {
    Http { _response: HttpResponse },
    Tls { _certificate: ChallengeCertificate },
}

impl SharedStorage {
    pub(crate) fn new(etcd: Rc<Etcd>, prefix: String) -> SharedStorage {
        SharedStorage { etcd, prefix, changes: watch::Sender::new(0) }
    }

    /// Wakes when a stored file has changed in etcd.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn file_key(&self, file: &Path) -> String {
        format!("{}files/{}", self.prefix, name(file))
    }

    /// Locks a certificate; an error unless this server has it now.
    pub(crate) async fn lock(&self, file: &Path) -> Result<FleetLock, IssueError> {
        let lease = self.etcd.lease_grant(&LeaseGrantRequest { ttl: LOCK_S, id: 0 }).await;
        let lease = lease.map_err(unreachable)?;
        let keeper = self.etcd.clone();
        let keeper = async move { keeper.keep_alive(lease.id, lease.ttl).await };
        let lock = FleetLock {
            etcd: self.etcd.clone(),
            lease: lease.id,
            key: format!("{}locks/{}", self.prefix, name(file)),
            keeper: net::task::spawn_local(keeper),
        };
        let free = CompareTarget::CreateRevision(0);
        let compare = Compare::new(lock.key.clone(), Compare::EQUAL, free);
        if self.write(compare, &lock.key, Bytes::new(), lease.id).await? {
            return Ok(lock);
        }
        lock.release().await;
        Err(IssueError::InProgress)
    }

    /// Writes a key if a condition holds; whether it did.
    async fn write(
        &self,
        compare: Compare,
        key: &str,
        value: Bytes,
        lease: i64,
    ) -> Result<bool, IssueError> {
        let key = Bytes::copy_from_slice(key.as_bytes());
        let put = PutRequest { key, value, lease, ..PutRequest::default() };
        let success = vec![RequestOpKind::Put(put).into()];
        let request = TxnRequest { compare: vec![compare], success, failure: Vec::new() };
        Ok(self.etcd.txn(&request).await.map_err(unreachable)?.succeeded)
    }

    /// Stores a file for all servers, unless the lock was lost.
    pub(crate) async fn store(
        &self,
        lock: &FleetLock,
        file: &Path,
        content: &[u8],
    ) -> Result<(), IssueError> {
        let compare =
            Compare::new(lock.key.clone(), Compare::EQUAL, CompareTarget::Lease(lock.lease));
        let value = Bytes::copy_from_slice(content);
        match self.write(compare, &self.file_key(file), value, 0).await? {
            true => Ok(()),
            false => Err(IssueError::Unreachable("the lock in etcd was lost".to_owned())),
        }
    }

    /// Removes a file for all servers.
    pub(crate) async fn remove(&self, file: &Path) {
        let key = self.file_key(file).into();
        let request = DeleteRangeRequest { key, ..DeleteRangeRequest::default() };
        // The next attempt fails as this one, and removes it.
        let _ = self.etcd.delete(&request).await;
    }

    async fn fetch(&self, file: &Path) -> Result<Option<Bytes>, IssueError> {
        let key = self.file_key(file).into();
        let request = RangeRequest { key, ..RangeRequest::default() };
        let response = self.etcd.range(&request).await.map_err(unreachable)?;
        Ok(response.kvs.into_iter().next().map(|kv| kv.value))
    }

    /// Takes over the account and the certificate of a plan from etcd, or puts the certificate
    /// there if etcd has none; whether the certificate in the file is another one now.
    pub(crate) async fn synchronize(&self, plan: &AcmePlan) -> Result<bool, IssueError> {
        if let Some(account) = self.fetch(&plan.account_file).await? {
            let own = storage::read(&plan.account_file).await.unwrap_or_default();
            if own != account {
                storage::write(&plan.account_file, account.to_vec()).await?;
            }
        }
        let own = storage::read(&plan.certificate_file).await.unwrap_or_default();
        let Some(shared) = self.fetch(&plan.certificate_file).await? else {
            if issued_at(&own).is_some() {
                let key = self.file_key(&plan.certificate_file);
                let none = CompareTarget::CreateRevision(0);
                let compare = Compare::new(key.clone(), Compare::EQUAL, none);
                self.write(compare, &key, own.into(), 0).await?;
            }
            return Ok(false);
        };
        if issued_at(&shared) <= issued_at(&own) {
            return Ok(false);
        }
        storage::write(&plan.certificate_file, shared.to_vec()).await?;
        Ok(true)
    }

    /// Lets all servers respond to a challenge `http-01`, as long as the lock is held.
    pub(crate) async fn publish_http(
        &self,
        lock: &FleetLock,
        token: &str,
        response: &str,
    ) -> Result<(), IssueError> {
        self.publish(lock, &format!("http/{token}"), response).await
    }

    /// The same for a challenge `tls-alpn-01`, whose certificate each server makes by itself.
    pub(crate) async fn publish_tls(
        &self,
        lock: &FleetLock,
        domain: &str,
        digest: &[u8],
    ) -> Result<(), IssueError> {
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.publish(lock, &format!("tls/{domain}"), &digest).await
    }

    async fn publish(&self, lock: &FleetLock, name: &str, text: &str) -> Result<(), IssueError> {
        let key = format!("{}challenges/{name}", self.prefix).into();
        let value = Bytes::copy_from_slice(text.as_bytes());
        let request = PutRequest { key, value, lease: lock.lease, ..PutRequest::default() };
        self.etcd.put(&request).await.map_err(unreachable)?;
        timer::sleep(PROPAGATION).await;
        Ok(())
    }

    /// Follows etcd for ever: presents the challenges of all servers and announces new files.
    pub(crate) async fn follow(self: Rc<Self>, responses: Arc<HttpChallenges>) {
        let mut failures = 0;
        loop {
            if self.follow_once(&responses).await.is_ok() {
                failures = 0;
            }
            timer::sleep(timer::pause(PAUSE, PAUSE_MAX, failures)).await;
            failures += 1;
        }
    }

    /// Reads everything, then applies changes until the watch ends.
    async fn follow_once(&self, responses: &Arc<HttpChallenges>) -> Result<(), EtcdError> {
        // What is not there any more when etcd is back is not presented.
        let mut challenges = Challenges::default();
        let (key, range_end) =
            (Bytes::copy_from_slice(self.prefix.as_bytes()), prefix_end(self.prefix.as_bytes()));
        let request = RangeRequest {
            key: key.clone(),
            range_end: range_end.clone(),
            ..RangeRequest::default()
        };
        let present = self.etcd.range(&request).await?;
        let start_revision = present.header.map_or(0, |header| header.revision) + 1;
        for kv in &present.kvs {
            self.changed(&kv.key, Some(&kv.value), responses, &mut challenges);
        }
        let request =
            WatchCreateRequest { key, range_end, start_revision, ..WatchCreateRequest::default() };
        let mut watch = Watch::new(self.etcd.clone(), request);
        while let Ok(WatchResponse { events, .. }) = watch.next().await {
            for event in &events {
                let Some(kv) = &event.kv else { continue };
                let value = (!event.is_delete()).then_some(&kv.value);
                self.changed(&kv.key, value, responses, &mut challenges);
            }
        }
        Ok(())
    }

    fn changed(
        &self,
        key: &Bytes,
        value: Option<&Bytes>,
        responses: &Arc<HttpChallenges>,
        challenges: &mut Challenges,
    ) {
        let Some(name) = key.strip_prefix(self.prefix.as_bytes()) else { return };
        let Ok(name) = std::str::from_utf8(name) else { return };
        if name.starts_with("files/") {
            self.changes.send_modify(|count| *count += 1);
        } else if let Some(challenge) = name.strip_prefix("challenges/") {
            challenges.change(challenge, value, responses);
        }
    }
}

impl Challenges {
    fn change(&mut self, name: &str, value: Option<&Bytes>, responses: &Arc<HttpChallenges>) {
        // The one before ends first: its end removes what has the same name.
        self.0.remove(name);
        let text = value.and_then(|value| std::str::from_utf8(value).ok());
        let presented = text.and_then(|text| PresentedChallenge::of(name, text, responses));
        if let Some(presented) = presented.filter(|_| self.0.len() < CHALLENGES_MAX) {
            self.0.insert(name.to_owned(), presented);
        }
    }
}

impl PresentedChallenge {
    /// `None` for what this version does not know.
    fn of(name: &str, text: &str, responses: &Arc<HttpChallenges>) -> Option<PresentedChallenge> {
        let (kind, name) = name.split_once('/')?;
        match kind {
            "http" => {
                let _response = HttpResponse::publish(responses, name, text);
                Some(PresentedChallenge::Http { _response })
            }
            "tls" => {
                let digest = digest(text)?;
                let _certificate = challenge_certificate(name, &digest).ok()?;
                Some(PresentedChallenge::Tls { _certificate })
            }
            _ => None,
        }
    }
}

/// The bytes of hexadecimal digits.
fn digest(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    let bytes: Option<Vec<u8>> = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
    bytes.filter(|bytes| bytes.len() == 32)
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Since when a certificate is valid; `None` if it cannot be used.
fn issued_at(content: &[u8]) -> Option<u64> {
    let pair = CertificateKey::load(content, content, None, net::clock::wall_secs()).ok()?;
    Some(pair.details.not_before)
}

fn unreachable(error: EtcdError) -> IssueError {
    IssueError::Unreachable(format!("etcd, which the servers share: {error}"))
}

#[cfg(test)]
mod tests {
    use plugin::Shared;

    use super::*;

    const DIGEST: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    #[test]
    fn challenges_of_other_servers_are_presented_until_they_are_removed() {
        let shared = Shared::default();
        let responses = HttpChallenges::of(&shared);
        let mut challenges = Challenges::default();
        let path = b"/.well-known/acme-challenge/token";
        let mut change = |name: &str, value: Option<&'static str>| {
            let value = value.map(|text| Bytes::from_static(text.as_bytes()));
            challenges.change(name, value.as_ref(), &responses);
            challenges.0.len()
        };
        assert_eq!(change("http/token", Some("token.key")), 1);
        assert_eq!(responses.response(path).as_deref(), Some("token.key"));
        assert_eq!(change("http/token", Some("again")), 1);
        assert_eq!(responses.response(path).as_deref(), Some("again"));
        assert_eq!(change("tls/a.test", Some(DIGEST)), 2);
        for name in ["tls/b.test", "unknown/b", "nothing"] {
            assert_eq!(change(name, Some("abc")), 2, "{name} is not known");
        }
        assert_eq!(change("http/token", None), 1);
        assert_eq!(responses.response(path), None);
        assert_eq!(change("tls/a.test", None), 0);
    }
}
