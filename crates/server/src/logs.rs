//! The logs of the process: the access log (one writer thread, one ring per worker) and the events.

use std::sync::Arc;

use config::{AccessFormatSetting, LogSettings, LogTarget};
use http_server::{AccessFormat, AccessLog, StatsdLines};
use net::DatagramSender;
use settings::{Address, Host};
use telemetry::log::{self, Level};
use telemetry::{LineReceiver, LogRing, LogWriter, Sink, Telemetry, event};

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
    lines: Option<(Arc<LogRing>, AccessFormat, f64)>,
    statsd: Option<StatsdLines>,
}

impl AccessEnd {
    /// Returns the log of one worker; `secrets` are query parameters to mask.
    pub(crate) fn begin(self, secrets: impl IntoIterator<Item = String>) -> Option<AccessLog> {
        let lines =
            self.lines.map(|(ring, format, sample)| AccessLog::new(ring, format, sample, secrets));
        match (lines, self.statsd) {
            (Some(log), Some(statsd)) => Some(log.with_statsd(statsd)),
            (None, Some(statsd)) => Some(AccessLog::without_lines(statsd)),
            (log, None) => log,
        }
    }
}

/// The writers of the access log and of metrics for StatsD, if there are any.
#[derive(Default)]
pub(crate) struct Logs {
    writer: Option<LogWriter>,
    target: Option<LogTarget>,
    statsd: Option<(LogWriter, Address)>,
}

/// Connects to a StatsD server.
pub(crate) fn statsd_sender(address: &Address) -> std::io::Result<DatagramSender> {
    match address {
        Address::Unix(path) => DatagramSender::unix(path),
        Address::Tcp { host: Host::Ip(ip), port } => DatagramSender::udp(&ip.to_string(), *port),
        Address::Tcp { host: Host::Any, port } => DatagramSender::udp("localhost", *port),
        Address::Tcp { host: Host::Name(name), port } => DatagramSender::udp(name, *port),
    }
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
        self.apply_statsd(settings, telemetry);
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

    /// Connects to the StatsD server of the settings. A failure only means that no metrics are
    /// sent.
    fn apply_statsd(&mut self, settings: &LogSettings, telemetry: &Telemetry) {
        let wanted = settings.statsd.as_ref().map(|statsd| &statsd.host);
        if self.statsd.as_ref().map(|(_, address)| address) == wanted {
            return;
        }
        self.statsd = wanted.and_then(|address| {
            let started = statsd_sender(address).and_then(|sender| {
                let receiver = LineReceiver(Arc::new(move |lines: &[u8]| sender.send_lines(lines)));
                LogWriter::start("statsd", Sink::Lines(receiver), telemetry)
            });
            match started {
                Ok(writer) => Some((writer, address.clone())),
                Err(error) => {
                    let message = "no metrics are sent, StatsD cannot be reached";
                    event!(Level::Warn, message, address = address, error = error);
                    None
                }
            }
        });
    }

    /// Creates the rings of one worker.
    pub(crate) fn end(&self, settings: &LogSettings) -> Option<AccessEnd> {
        let lines = self.writer.as_ref().zip(settings.access.as_ref()).map(|(writer, access)| {
            let format = match &access.format {
                AccessFormatSetting::Json => AccessFormat::Json,
                AccessFormatSetting::Combined => AccessFormat::Combined,
                AccessFormatSetting::Template(template) => AccessFormat::Template(template.clone()),
            };
            (writer.ring(), format, access.sample)
        });
        let statsd = self.statsd.as_ref().zip(settings.statsd.as_ref());
        let statsd = statsd.map(|((writer, _), settings)| {
            StatsdLines::new(writer.ring(), &settings.prefix, &settings.tags)
        });
        (lines.is_some() || statsd.is_some()).then_some(AccessEnd { lines, statsd })
    }

    /// Reopens the files after a rotation.
    pub(crate) fn reopen(&self) {
        if let Err(error) = net::reopen_error_log() {
            event!(Level::Error, "the error log cannot be opened again", error = error);
        }
        if let Some(Err(error)) = self.writer.as_ref().map(LogWriter::reopen) {
            event!(Level::Error, "the access log cannot be opened again", error = error);
        }
    }
}

fn unwritable(error: &dyn std::fmt::Display) -> String {
    format!("the access log cannot be written: {error}")
}
