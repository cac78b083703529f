//! The table of a quota and the file that it is stored in, shared by all workers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use plugin::WorkerContext;
use settings::{FilePath, Node, Reader};
use telemetry::log::Level;
use telemetry::{SharedGauge, event, families};

use super::period::Span;
use super::shared::{QuotaPeriod, SharedQuota};
use super::table::{Fingerprint, QuotaCount, QuotaTable, TableMetrics};
use crate::keyed_state;
use crate::shared_limits::SharedLimits;

/// Longest name: it is the name of a file.
const NAME_BYTES_MAX: usize = 64;

/// Reports a name that cannot be that of a file.
pub(super) fn check_name(name: &str, node: &Node, reader: &mut Reader<'_>) {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) {
        let why = format!("the name is 1 to {NAME_BYTES_MAX} letters, digits, - and _");
        reader.error(node.get("name").unwrap_or(node).span, why);
    }
}

/// The opened counts of a quota.
pub(super) enum OpenedQuota {
    /// Of this machine.
    Local(QuotaTable),
    /// Of all servers that share.
    Shared(Arc<SharedQuota>),
}

impl OpenedQuota {
    /// Takes the cost of a request from the quota of a key.
    #[inline]
    pub(super) fn take(&self, key: Fingerprint, span: Span, limit: u32, cost: u32) -> QuotaCount {
        match self {
            OpenedQuota::Local(table) => table.take(key, span, limit, cost),
            OpenedQuota::Shared(quota) => quota.take(key, span, limit, cost),
        }
    }

    /// Adds an amount to the count of a key, also above the limit.
    pub(super) fn add(&self, key: Fingerprint, span: Span, amount: u32) {
        match self {
            OpenedQuota::Local(table) => table.add(key, span, amount),
            OpenedQuota::Shared(quota) => quota.add(key, span, amount),
        }
    }

    /// The count of a key in a period, and when that ends.
    pub(super) fn used(&self, key: Fingerprint, span: Span) -> (u32, u64) {
        match self {
            OpenedQuota::Local(table) => table.used(key, span),
            OpenedQuota::Shared(quota) => quota.counts().used(key, span),
        }
    }

    /// Sets the count of a key to zero.
    pub(super) fn reset(&self, key: Fingerprint) {
        match self {
            OpenedQuota::Local(table) => table.reset(key),
            OpenedQuota::Shared(quota) => quota.reset(key),
        }
    }
}

/// The counts of a quota, once its file could be opened.
pub(super) struct StoredTable {
    opened: OnceLock<OpenedQuota>,
    /// The lock under which the file is opened.
    opening: Mutex<()>,
    /// 1 while the file is open. The gauge is stored here, because it is removed with its last
    /// owner.
    stored: Arc<SharedGauge>,
    /// The register lives as long as a quota that is shared.
    _limits: Option<Arc<SharedLimits>>,
}

/// Which file a quota has, and whether servers share it.
pub(super) struct TableSettings<'a> {
    pub(super) directory: Option<&'a FilePath>,
    pub(super) name: &'a str,
    pub(super) entries: u32,
    /// Set if the servers share the quota.
    pub(super) shared: Option<QuotaPeriod<'a>>,
}

/// Identifies the counts of a quota across reloads.
#[derive(PartialEq, Eq, Hash)]
struct TableKey {
    path: Option<PathBuf>,
    name: String,
    entries: u32,
    /// The period, if the servers share the quota.
    shared: Option<String>,
}

impl StoredTable {
    /// The counts of a quota, whose file is opened unless it is open. Every worker of every plan
    /// calls this, so that a reload tries again after a failure.
    pub(super) fn open(settings: &TableSettings<'_>, worker: &WorkerContext) -> Arc<StoredTable> {
        let TableSettings { directory, name, entries, shared } = settings;
        let path = path(*directory, name);
        let identity = TableKey {
            path: path.clone(),
            name: (*name).to_owned(),
            entries: *entries,
            shared: shared.as_ref().map(|shared| format!("{},{}", shared.period, shared.zone)),
        };
        let limits = shared.as_ref().map(|_| worker.shared.get((), SharedLimits::default));
        let table = worker.shared.get(identity, || StoredTable {
            opened: OnceLock::new(),
            opening: Mutex::new(()),
            stored: worker.telemetry.gauge(&families::QUOTA_STORED, &[*name]),
            _limits: limits.clone(),
        });
        let opening = table.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if table.opened.get().is_none() {
            let opened = match path {
                Some(path) => open_files(&path, settings, limits.as_deref(), worker)
                    .map_err(|error| format!("{}: {error}", path.display())),
                None => Err("there is no state directory: set `directory`".to_owned()),
            };
            table.stored.set(opened.is_ok().into());
            match opened {
                Ok(opened) => drop(table.opened.set(opened)),
                Err(error) => event!(
                    Level::Error,
                    "quota file cannot be used: requests get 503 until a reload can open it",
                    quota = name,
                    error = error
                ),
            }
        }
        drop(opening);
        table
    }

    /// The table; `None` while its file cannot be used.
    pub(super) fn get(&self) -> Option<&OpenedQuota> {
        self.opened.get()
    }
}

fn open_files(
    path: &Path,
    settings: &TableSettings<'_>,
    limits: Option<&SharedLimits>,
    worker: &WorkerContext,
) -> std::io::Result<OpenedQuota> {
    let TableSettings { name, entries, shared, .. } = settings;
    let metrics = TableMetrics {
        entries: worker.telemetry.gauge(&families::STATE_ENTRIES, &[*name]),
        evictions: worker.telemetry.counter(&families::STATE_EVICTIONS, &[*name]),
    };
    let table = QuotaTable::open(path, *entries, metrics)?;
    let (Some(period), Some(limits)) = (shared, limits) else {
        return Ok(OpenedQuota::Local(table));
    };
    let changed = keyed_state::uncounted_changing_table(*entries);
    let file = (*name, path, *entries);
    let quota = Arc::new(SharedQuota::open(file, table, period, changed, limits.sharing())?);
    limits.settle(quota.clone());
    Ok(OpenedQuota::Shared(quota))
}

fn path(directory: Option<&FilePath>, name: &str) -> Option<PathBuf> {
    let directory = match directory {
        Some(directory) => directory.to_path_buf(),
        None => tls_settings::state_directory()?.join("quotas"),
    };
    Some(directory.join(format!("{name}.quota")))
}
