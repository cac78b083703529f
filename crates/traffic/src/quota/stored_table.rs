//! The table of a quota and the file that it is stored in, shared by all workers.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use plugin::WorkerContext;
use settings::{FilePath, Node, Reader};
use telemetry::log::Level;
use telemetry::{SharedGauge, event, families};

use super::table::{QuotaTable, TableMetrics};

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

/// The counts of a quota, once its file could be opened.
pub(super) struct StoredTable {
    opened: OnceLock<QuotaTable>,
    /// The lock under which the file is opened.
    opening: Mutex<()>,
    /// 1 while the file is open. The gauge is stored here, because it is removed with its last
    /// owner.
    stored: Arc<SharedGauge>,
}

/// Identifies the counts of a quota across reloads.
#[derive(PartialEq, Eq, Hash)]
struct TableKey {
    path: Option<PathBuf>,
    name: String,
    entries: u32,
}

impl StoredTable {
    /// The counts of a quota, whose file is opened unless it is open. Every worker of every plan
    /// calls this, so that a reload tries again after a failure.
    pub(super) fn open(
        directory: Option<&FilePath>,
        name: &str,
        entries: u32,
        worker: &WorkerContext,
    ) -> Arc<StoredTable> {
        let path = path(directory, name);
        let identity = TableKey { path: path.clone(), name: name.to_owned(), entries };
        let table = worker.shared.get(identity, || StoredTable {
            opened: OnceLock::new(),
            opening: Mutex::new(()),
            stored: worker.telemetry.gauge(&families::QUOTA_STORED, &[name]),
        });
        let opening = table.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if table.opened.get().is_none() {
            let metrics = TableMetrics {
                entries: worker.telemetry.gauge(&families::STATE_ENTRIES, &[name]),
                evictions: worker.telemetry.counter(&families::STATE_EVICTIONS, &[name]),
            };
            let opened = match path {
                Some(path) => QuotaTable::open(&path, entries, metrics)
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
    pub(super) fn get(&self) -> Option<&QuotaTable> {
        self.opened.get()
    }
}

fn path(directory: Option<&FilePath>, name: &str) -> Option<PathBuf> {
    let directory = match directory {
        Some(directory) => directory.to_path_buf(),
        None => tls_settings::state_directory()?.join("quotas"),
    };
    Some(directory.join(format!("{name}.quota")))
}
