//! The configuration source of the running server: reading, writing and watching it.
//!
//! Disk access never blocks the control thread.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use admin::Refusal;
use config::{Inputs, Kinds, Loaded, NewConfig, ReplaceError, Replaced, Source};
use settings::Report;
use telemetry::event;
use telemetry::log::Level;

use crate::etcd_documents::Documents;
use crate::history::History;

/// Time-out of reading the source.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// The content of the source as last read.
#[derive(Clone)]
pub(crate) enum SourceFingerprint {
    Plan(Arc<Inputs>),
    Errors(String),
}

impl SourceFingerprint {
    pub(crate) fn of(loaded: &Result<Loaded, Report>) -> SourceFingerprint {
        match loaded {
            Ok(loaded) => SourceFingerprint::of_plan(loaded),
            Err(report) => SourceFingerprint::Errors(report.render()),
        }
    }

    pub(crate) fn of_plan(loaded: &Loaded) -> SourceFingerprint {
        SourceFingerprint::Plan(loaded.inputs.clone())
    }

    /// True if the source has other content now.
    fn is_outdated(&self, source: &dyn Source) -> bool {
        match self {
            SourceFingerprint::Plan(inputs) => !inputs.are_current(source),
            // An error may depend on what does not exist.
            SourceFingerprint::Errors(errors) => {
                load(source).err().is_none_or(|report| report.render() != *errors)
            }
        }
    }
}

/// The source, and its content as last read.
pub(crate) struct ConfigSource {
    source: Arc<dyn Source>,
    /// Files whose change triggers a reload.
    watched: RefCell<Vec<PathBuf>>,
    last_fingerprint: RefCell<SourceFingerprint>,
}

impl ConfigSource {
    pub(crate) fn new(source: Arc<dyn Source>, loaded: &Loaded) -> ConfigSource {
        let config_source = ConfigSource {
            source,
            watched: RefCell::default(),
            last_fingerprint: RefCell::new(SourceFingerprint::of_plan(loaded)),
        };
        config_source.watch(loaded.files.clone());
        config_source
    }

    pub(crate) fn source(&self) -> &dyn Source {
        &*self.source
    }

    pub(crate) fn watched(&self) -> Vec<PathBuf> {
        self.watched.borrow().clone()
    }

    pub(crate) fn set_fingerprint(&self, fingerprint: SourceFingerprint) {
        self.last_fingerprint.replace(fingerprint);
    }

    /// Returns the history of the configuration file, if the source is a file.
    pub(crate) fn history(&self) -> Option<History> {
        self.source.file().map(History::of)
    }

    /// Reads on another thread: a disk, or a pipe without a writer, may block.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        reading: impl FnOnce(&dyn Source) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let source = self.source.clone();
        let read = net::blocking(move || {
            let read = reading(&*source);
            // The thread may have nothing else to do for a long time.
            net::release_free_memory();
            read
        });
        match net::timer::within(READ_WITHIN, read).await {
            Some(read) => read.map_err(|error| Refusal::Failed(error.to_string())),
            None => Err(Refusal::Failed(format!(
                "the configuration could not be read within {} s",
                READ_WITHIN.as_secs()
            ))),
        }
    }

    /// Replaces the main document, or the set of documents.
    pub(crate) async fn write(&self, new: NewConfig) -> Result<(), Refusal> {
        let source = self.source.clone();
        let written = net::blocking(move || source.replace(&new)).await;
        written.map_err(|error| Refusal::Failed(error.to_string()))?.map_err(|error| match error {
            ReplaceError::ReadOnly(message) => Refusal::ReadOnly(message),
            ReplaceError::Conflict(message) => Refusal::Unable(message),
            ReplaceError::Failed(message) => Refusal::Failed(message),
        })
    }

    pub(crate) async fn keep_history(
        &self,
        (version, before): (String, String),
        (version_after, after): (String, String),
    ) {
        let Some(history) = self.history() else { return };
        let now = telemetry::timestamp::now_ms();
        let kept = net::blocking(move || {
            history.keep(&version, &before, now.saturating_sub(1))?;
            history.keep(&version_after, &after, now)
        });
        if let Err(error) = kept.await.and_then(|kept| kept) {
            event!(
                Level::Warn,
                "the history of the configuration cannot be written",
                error = error
            );
        }
    }

    /// Returns true if the content differs from what was read last. Called when further files are
    /// watched, because earlier changes of these were not noticed.
    pub(crate) async fn has_changed(&self) -> bool {
        let fingerprint = self.last_fingerprint.borrow().clone();
        let read = self.read(move |source| fingerprint.is_outdated(source)).await;
        read.unwrap_or(false)
    }

    /// Watches the main file and all files that were read or looked for.
    pub(crate) fn watch(&self, files: Vec<PathBuf>) {
        let main = self.source.file().map(PathBuf::from);
        self.watched.replace(main.into_iter().chain(files).collect());
    }

    /// Returns the default working directory of applications: that of the configuration file.
    pub(crate) fn directory(&self) -> PathBuf {
        let file = self.source.file().and_then(|file| std::path::absolute(file).ok());
        let directory = file.and_then(|file| file.parent().map(PathBuf::from));
        directory.or_else(|| std::env::current_dir().ok()).unwrap_or_default()
    }
}

/// What a source has that another configuration replaces, and its version; a sentence if it cannot
/// be replaced by that.
pub(crate) fn replaceable(
    source: &dyn Source,
    new: &NewConfig,
) -> Result<(NewConfig, String), Refusal> {
    match new {
        NewConfig::Main(_) => {
            let main = source.main().map_err(Refusal::Failed)?;
            let version = main.version();
            Ok((NewConfig::Main(main.text), version))
        }
        NewConfig::Documents(_) => {
            let texts = source.documents().map_err(Refusal::ReadOnly)?;
            let version = Documents::of_texts(&texts).version();
            Ok((NewConfig::Documents(texts), version))
        }
    }
}

/// Reads a configuration in place of that of a source. JSON is a subset of YAML: one parser reads
/// both.
pub(crate) fn load_new(source: &dyn Source, new: &NewConfig) -> Result<Loaded, Report> {
    match new {
        NewConfig::Main(text) => load(&Replaced { source, text: text.clone() }),
        NewConfig::Documents(texts) => load(&Documents::of_texts(texts)),
    }
}

/// Reads, validates and freezes a configuration.
pub(crate) fn load(source: &dyn Source) -> Result<Loaded, Report> {
    config::load(source, &config::process_environment, &Kinds::all())
}
