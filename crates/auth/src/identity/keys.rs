//! The keys of a provider, as all workers share them.
//!
//! Promises that one fetch is in flight at a time, however many requests wait for it; that a
//! request waits for a bounded time; and that a worker learns of other keys by one atomic load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use message::LocalFuture;
use net::clock::{self, Moment};
use net::tls::ClientTls;
use tokio::sync::{Notify, watch};

use crate::token::Key;

/// Identifies the keys across reloads.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct SourceKey {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) tls: Option<ClientTls>,
}

/// The keys of a provider, before and after they were fetched.
pub(crate) struct ProviderKeys {
    /// Grows when the keys change.
    generation: AtomicU64,
    state: RwLock<KeyState>,
    /// Changes with the end of each fetch.
    fetches: watch::Sender<u64>,
    /// A request asks for a fetch.
    pub(super) requested: Notify,
}

pub(super) struct KeyState {
    pub(super) keys: Option<Arc<[Key]>>,
    /// The end of the last successful fetch, and the digest of what it returned.
    pub(super) fetched: Option<(Moment, [u8; 32])>,
    /// When the keys are to be fetched again.
    pub(super) due: Moment,
    /// Why the last fetch failed, if it did.
    pub(super) error: Option<String>,
    is_in_flight: bool,
    began: Moment,
}

impl Default for ProviderKeys {
    /// The first fetch is about to begin.
    fn default() -> ProviderKeys {
        let now = clock::now();
        ProviderKeys {
            generation: AtomicU64::new(0),
            state: RwLock::new(KeyState {
                keys: None,
                fetched: None,
                due: now,
                error: None,
                is_in_flight: true,
                began: now,
            }),
            fetches: watch::Sender::new(0),
            requested: Notify::new(),
        }
    }
}

impl ProviderKeys {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, KeyState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KeyState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin_fetch(&self) {
        let mut state = self.write();
        (state.is_in_flight, state.began) = (true, clock::now());
    }

    /// Ends a fetch: `change` writes its result. True if workers have other keys now.
    pub(super) fn end_fetch(&self, change: impl FnOnce(&mut KeyState)) -> bool {
        let mut state = self.write();
        let before = state.keys.clone();
        change(&mut state);
        state.is_in_flight = false;
        let is_same = match (&before, &state.keys) {
            (Some(before), Some(after)) => Arc::ptr_eq(before, after),
            (before, after) => before.is_none() && after.is_none(),
        };
        if !is_same {
            self.generation.fetch_add(1, Ordering::Release);
        }
        drop(state);
        self.fetches.send_modify(|count| *count += 1);
        !is_same
    }

    /// A future of the end of the fetch in flight. Unless there is one, it is begun if the last one
    /// began `cooldown` ago.
    fn fetch(
        &self,
        cooldown: Option<Duration>,
        timeout: Duration,
    ) -> Option<LocalFuture<'static, ()>> {
        let mut state = self.write();
        if !state.is_in_flight {
            let since = clock::now().since(state.began);
            if cooldown.is_none_or(|cooldown| since < cooldown) {
                return None;
            }
            state.is_in_flight = true;
            self.requested.notify_one();
        }
        let mut fetches = self.fetches.subscribe();
        drop(state);
        Some(Box::pin(async move {
            // After the time-out the keys are what they were.
            let _ = net::timer::within(timeout, fetches.changed()).await;
        }))
    }
}

/// The keys that a filter verifies tokens with.
#[derive(Clone)]
pub(crate) enum KeySource {
    /// Keys of the configuration.
    Fixed(Arc<[Key]>),
    /// Keys that a provider publishes.
    Provider { keys: Arc<ProviderKeys>, cooldown: Duration, timeout: Duration },
}

/// The reason to fetch keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyUse {
    /// No key is known.
    First,
    /// A token names a key that is not among those known.
    UnknownKey,
}

impl KeySource {
    /// Grows when the keys change: what was verified with others has to be verified again.
    pub(crate) fn generation(&self) -> u64 {
        match self {
            KeySource::Fixed(_) => 0,
            KeySource::Provider { keys, .. } => keys.generation.load(Ordering::Acquire),
        }
    }

    /// The keys; `None` if the provider has not published any yet, or too long ago.
    pub(crate) fn keys(&self) -> Option<Arc<[Key]>> {
        match self {
            KeySource::Fixed(keys) => Some(keys.clone()),
            KeySource::Provider { keys, .. } => keys.read().keys.clone(),
        }
    }

    /// A future after which there may be other keys, if that is worth waiting for.
    pub(crate) fn fetch(&self, needed: KeyUse) -> Option<LocalFuture<'static, ()>> {
        match self {
            KeySource::Fixed(_) => None,
            KeySource::Provider { keys, cooldown, timeout } => {
                // The task retries by itself while it has no keys.
                let cooldown = (needed == KeyUse::UnknownKey).then_some(*cooldown);
                keys.fetch(cooldown, *timeout)
            }
        }
    }
}
