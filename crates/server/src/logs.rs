//! The logs of the process: the access log (one writer thread, one ring per worker) and the events.

use std::sync::Arc;

use config::{LogSettings, LogTarget, SyslogSettings, SyslogTransport};
use http_server::{AccessLog, StatsdLines};
use message::LineFormat;
use net::{DatagramSender, SyslogAddress, SyslogSender};
use otlp::{LogExporter, LogSource};
use plugin::CredentialPlace;
use settings::{Address, Host};
use telemetry::log::{self, Level};
use telemetry::{
    LineReceiver, LineSender, LogRing, LogWriter, Sink, SyslogHeader, Telemetry, event,
};

/// Writes events to standard error until all of its clones are dropped. Writing has a thread of its
/// own, because a pipe without a reader blocks its writer, which must be neither a worker nor the
/// control thread.
#[derive(Clone)]
pub(crate) struct Events(Arc<EventWriter>);

struct EventWriter(LogWriter);

impl Events {
    pub(crate) fn start(telemetry: &Telemetry) -> std::io::Result<Events> {
        let writer = LogWriter::start("events", Sink::Stderr, telemetry)?;
        log::install(Some(writer.ring()));
        Ok(Events(Arc::new(EventWriter(writer))))
    }

    /// Waits briefly until the events so far are written.
    pub(crate) fn flush(&self) {
        self.0.0.flush();
    }
}

impl Drop for EventWriter {
    fn drop(&mut self) {
        log::install(None);
    }
}

/// One worker's end of the access log, to be sent to the worker.
pub(crate) struct AccessEnd {
    lines: Option<(Arc<LogRing>, LineFormat, f64)>,
    statsd: Option<StatsdLines>,
}

impl AccessEnd {
    /// Returns the log of one worker; `secrets` are places of requests to mask.
    pub(crate) fn begin(
        self,
        secrets: impl IntoIterator<Item = CredentialPlace>,
    ) -> Option<AccessLog> {
        let lines =
            self.lines.map(|(ring, format, sample)| AccessLog::new(ring, format, sample, secrets));
        match (lines, self.statsd) {
            (Some(log), Some(statsd)) => Some(log.with_statsd(statsd)),
            (None, Some(statsd)) => Some(AccessLog::without_lines(statsd)),
            (log, None) => log,
        }
    }
}

/// The writers of the access log, of metrics for StatsD and of messages for syslog, if there are
/// any, and that of events.
#[derive(Default)]
pub(crate) struct Logs {
    events: Option<Events>,
    syslog: Option<(LogWriter, SyslogAddress)>,
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

/// Returns the address of a syslog server as its sender has it.
fn syslog_address(settings: &SyslogSettings) -> SyslogAddress {
    match (&settings.address, settings.transport) {
        (Address::Unix(path), _) => SyslogAddress::Unix(path.clone()),
        (Address::Tcp { host, port }, transport) => {
            let host = match host {
                Host::Ip(ip) => ip.to_string(),
                Host::Any => "localhost".to_owned(),
                Host::Name(name) => name.clone(),
            };
            match transport {
                SyslogTransport::Udp => SyslogAddress::Udp(host, *port),
                SyslogTransport::Tcp => SyslogAddress::Tcp(host, *port),
            }
        }
    }
}

impl Logs {
    pub(crate) fn new(events: Events) -> Logs {
        Logs { events: Some(events), ..Logs::default() }
    }

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
        export: &LogExporter,
        telemetry: &Telemetry,
    ) -> Result<(), String> {
        self.apply_statsd(settings, telemetry);
        self.apply_access(settings, telemetry)?;
        self.apply_syslog(settings, telemetry);
        self.copy_lines(settings, export);
        Ok(())
    }

    fn apply_access(
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

    /// Starts the thread that sends messages to the syslog server of the settings. It connects with
    /// the first message.
    fn apply_syslog(&mut self, settings: &LogSettings, telemetry: &Telemetry) {
        let wanted = settings.syslog.as_ref().map(syslog_address);
        if self.syslog.as_ref().map(|(_, address)| address) == wanted.as_ref() {
            return;
        }
        self.syslog = wanted.and_then(|address| {
            let sender = SyslogSender::new(address.clone());
            let send = LineSender(Arc::new(move |lines: &[u8]| sender.send_lines(lines)));
            match LogWriter::start("syslog", Sink::Remote(send), telemetry) {
                Ok(writer) => Some((writer, address)),
                Err(error) => {
                    let message = "nothing is sent to syslog: its thread cannot be started";
                    event!(Level::Warn, message, error = error);
                    None
                }
            }
        });
    }

    /// Has the lines of both logs copied to syslog and to the collector, as the settings say.
    fn copy_lines(&self, settings: &LogSettings, export: &LogExporter) {
        let copies = |source, message_id, wanted: &dyn Fn(&SyslogSettings) -> bool| {
            let syslog = self.syslog.as_ref().zip(settings.syslog.as_ref());
            let syslog = syslog.filter(|(_, settings)| wanted(settings));
            let syslog = syslog.map(|((writer, _), settings)| {
                let facility = settings.facility.number();
                let header = SyslogHeader { facility, name: settings.name.clone(), message_id };
                header.receiver(writer.ring())
            });
            syslog.into_iter().chain(export.receiver(source)).collect::<Vec<LineReceiver>>()
        };
        if let Some(events) = &self.events {
            let writer = &events.0.0;
            writer.copy_to(copies(
                LogSource::Events,
                telemetry::SYSLOG_EVENTS,
                &|syslog: &SyslogSettings| syslog.events,
            ));
        }
        if let Some(writer) = &self.writer {
            writer.copy_to(copies(LogSource::Access, "access", &|syslog: &SyslogSettings| {
                syslog.access
            }));
        }
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
        let lines =
            self.writer.as_ref().zip(settings.access.as_ref()).map(|(writer, access)| {
                (writer.ring(), access.format.line_format(), access.sample)
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
