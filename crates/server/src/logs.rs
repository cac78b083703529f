//! The logs of the process: the access log (one writer thread, one ring per worker) and the events.

use std::sync::Arc;

use config::{AccessFormatSetting, LogSettings, LogTarget};
use http_server::AccessFormat;
use telemetry::log::{self, Level};
use telemetry::{LogRing, LogWriter, Sink, Telemetry, event};

/// Writes events to standard error until it is dropped. Writing has a thread of its own, because a
/// pipe without a reader blocks its writer, which must be neither a worker nor the control thread.
pub(crate) struct Events(LogWriter);

impl Events {
    pub(crate) fn start(telemetry: &Telemetry) -> std::io::Result<Events> {
        let writer = LogWriter::start("events", Sink::Stderr, telemetry)?;
        log::install(Some(writer.ring()));
        Ok(Events(writer))
    }

    /// Waits briefly until the events so far are written.
    pub(crate) fn flush(&self) {
        self.0.flush();
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        log::install(None);
    }
}

/// One worker's end of the access log, to be sent to the worker.
pub(crate) struct AccessEnd {
    pub(crate) ring: Arc<LogRing>,
    pub(crate) format: AccessFormat,
    pub(crate) sample: f64,
}

/// The writer of the access log, if there is one.
#[derive(Default)]
pub(crate) struct Logs {
    writer: Option<LogWriter>,
    target: Option<LogTarget>,
}

impl Logs {
    /// Checks that the files of the settings can be written, before anything is changed.
    pub(crate) fn check(&self, settings: &LogSettings) -> Result<(), String> {
        match settings.access.as_ref().map(|access| &access.path) {
            Some(target @ LogTarget::File(path)) if self.target.as_ref() != Some(target) => {
                let checked = Sink::File(path.clone()).check();
                checked.map_err(|error| unwritable(&format!("{}: {error}", path.display())))
            }
            _ => Ok(()),
        }
    }

    /// Opens the files of the settings; a path that cannot be written is an error of the
    /// configuration.
    pub(crate) fn apply(
        &mut self,
        settings: &LogSettings,
        telemetry: &Telemetry,
    ) -> Result<(), String> {
        let Some(access) = &settings.access else {
            self.writer = None;
            self.target = None;
            return Ok(());
        };
        if self.target.as_ref() == Some(&access.path) {
            return Ok(());
        }
        let sink = match &access.path {
            LogTarget::Stdout => Sink::Stdout,
            LogTarget::Stderr => Sink::Stderr,
            LogTarget::File(path) => Sink::File(path.clone()),
        };
        let opened = match &self.writer {
            Some(writer) => writer.retarget(sink),
            None => {
                LogWriter::start("access", sink, telemetry).map(|writer| self.writer = Some(writer))
            }
        };
        opened.map_err(|error| unwritable(&error))?;
        self.target = Some(access.path.clone());
        Ok(())
    }

    /// Creates the ring of one worker.
    pub(crate) fn end(&self, settings: &LogSettings) -> Option<AccessEnd> {
        let (writer, access) = self.writer.as_ref().zip(settings.access.as_ref())?;
        let format = match &access.format {
            AccessFormatSetting::Json => AccessFormat::Json,
            AccessFormatSetting::Combined => AccessFormat::Combined,
            AccessFormatSetting::Template(template) => AccessFormat::Template(template.clone()),
        };
        Some(AccessEnd { ring: writer.ring(), format, sample: access.sample })
    }

    /// Reopens the file after a rotation.
    pub(crate) fn reopen(&self) {
        if let Some(Err(error)) = self.writer.as_ref().map(LogWriter::reopen) {
            event!(Level::Error, "the access log cannot be opened again", error = error);
        }
    }
}

fn unwritable(error: &dyn std::fmt::Display) -> String {
    format!("the access log cannot be written: {error}")
}
