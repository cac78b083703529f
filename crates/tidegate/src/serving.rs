//! Options of every command that starts a server, and the exit code of a server.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use net::Bind;
use serde_json::json;
use server::{Bound, EtcdSource, Options};
use telemetry::log::{Format, Level};

use crate::failure::Failure;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server options")]
pub(crate) struct ServingOptions {
    /// Workers (threads; of a Python application, processes): a number, or one per core with
    /// `auto`; overrides `workers` of the configuration
    #[arg(short = 'w', long, value_name = "N|auto", value_parser = workers)]
    workers: Option<config::Workers>,

    /// Pin each worker to a core of its own
    #[arg(long)]
    cpu_affinity: bool,

    /// The lowest level of logged events; overrides `log.level` of the configuration
    #[arg(long, value_name = "LEVEL", value_parser = levels())]
    log_level: Option<Level>,

    /// The format of events; overrides `log.format` of the configuration
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    log_format: Option<Format>,
}

impl ServingOptions {
    /// Returns the number of workers, or the default of a command.
    pub(crate) fn workers_or(&self, default: usize) -> usize {
        match self.workers {
            None => default,
            Some(config::Workers::Auto) => net::worker::allowed_cores().len().max(1),
            Some(config::Workers::Count(count)) => usize::from(count),
        }
    }

    pub(crate) fn cpu_affinity(&self) -> bool {
        self.cpu_affinity
    }

    pub(crate) fn log_level(&self) -> Option<Level> {
        self.log_level
    }

    pub(crate) fn log_format(&self) -> Option<Format> {
        self.log_format
    }

    fn of_server(&self) -> Options {
        Options {
            workers: self.workers,
            cpu_affinity: self.cpu_affinity,
            log_level: self.log_level,
            log_format: self.log_format,
            ..Options::default()
        }
    }

    /// Sets the log format of the command line, if there is one.
    pub(crate) fn apply_format(&self) {
        if let Some(format) = self.log_format {
            telemetry::log::set_format(format);
        }
    }
}

fn workers(typed: &str) -> Result<config::Workers, String> {
    typed.parse().map_err(|why| format!("\"{typed}\" {why}"))
}

fn levels() -> impl TypedValueParser<Value = Level> {
    // Python's names are understood too.
    let known = Level::ALL.map(|level| match level {
        Level::Warn => PossibleValue::new(level.slug()).alias("warning"),
        Level::Error => PossibleValue::new(level.slug()).alias("critical"),
        _ => PossibleValue::new(level.slug()),
    });
    PossibleValuesParser::new(known).try_map(|word| match word.as_str() {
        "warning" => Ok(Level::Warn),
        "critical" => Ok(Level::Error),
        word => Level::parse(word).ok_or("no such level"),
    })
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(["text", "json"]).map(|word| match word.as_str() {
        "json" => Format::Json,
        _ => Format::Text,
    })
}

/// Serves until the server is signalled to stop. The text of `told` is printed once it accepts, for
/// users of a terminal; the log has the addresses in any case.
pub(crate) fn serve(
    source: impl config::Source + 'static,
    options: ServingOptions,
    told: impl FnOnce(&[Bound]) -> String + 'static,
) -> Result<(), Failure> {
    let options = Options { on_ready: Some(on_ready(told)), ..options.of_server() };
    Ok(server::run(Arc::new(source), options)?)
}

/// Serves the configuration in etcd.
pub(crate) fn serve_etcd(source: EtcdSource, options: ServingOptions) -> Result<(), Failure> {
    let source = Arc::new(source);
    let options = Options { etcd: Some(source.clone()), ..options.of_server() };
    Ok(server::run(source, options)?)
}

/// Prints the text of `told` once the server accepts.
pub(crate) fn on_ready(told: impl FnOnce(&[Bound]) -> String + 'static) -> server::OnReady {
    Box::new(move |bound| {
        // A server keeps serving if its standard output is closed.
        let _ = write_all(&told(bound));
    })
}

fn write_all(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The option that serves https without a certificate of one's own.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(crate) struct DevelopmentOptions {
    /// For development: serve https with a certificate for localhost and NAMES, separated by
    /// commas, that a local authority issues
    #[arg(
        long,
        value_name = "NAMES",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        help_heading = "TLS"
    )]
    dev_tls: Option<Vec<String>>,
}

impl DevelopmentOptions {
    pub(crate) fn is_set(&self) -> bool {
        self.dev_tls.is_some()
    }

    /// Returns the file of the certificate and its key if it is requested, and explains on standard
    /// error how clients come to trust it: the option must not reach production unnoticed.
    pub(crate) fn certificate(&self) -> Result<Option<PathBuf>, Failure> {
        let Some(names) = &self.dev_tls else { return Ok(None) };
        let files = acme::DevelopmentCertificate::prepare(names)
            .map_err(|why| Failure::Failed(format!("--dev-tls: {why}")))?;
        let authority = files.authority.display();
        // A server keeps serving if its standard error is closed.
        let _ = writeln!(
            std::io::stderr(),
            "warning: --dev-tls is for development. Its certificate is valid for clients that \
             trust {authority}:\n  \
             curl:     curl --cacert {authority} https://localhost:PORT/\n  \
             Debian:   sudo cp {authority} /usr/local/share/ca-certificates/tidegate-dev.crt && \
             sudo update-ca-certificates\n  \
             browsers: import the file as a certificate authority, in the settings of certificates"
        );
        Ok(Some(files.pair))
    }
}

/// Options of commands whose one listener may serve https.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsOptions {
    /// Serve https with this certificate, followed by those of its issuers: a PEM file, watched
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "dev_tls")]
    cert: Option<PathBuf>,

    /// The private key of the certificate: a PEM file
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    #[command(flatten)]
    development: DevelopmentOptions,
}

impl TlsOptions {
    /// Adds the settings to those of a listener.
    pub(crate) fn add_to(&self, listener: &mut serde_json::Value) -> Result<(), Failure> {
        let development = self.development.certificate()?;
        let cert = self.cert.as_ref().or(development.as_ref());
        let key = self.key.as_ref().or(development.as_ref());
        if let (Some(cert), Some(key)) = (cert, key) {
            let certificate = json!({ "cert": path(cert)?, "key": path(key)? });
            listener["tls"] = json!({ "certificates": [certificate] });
        }
        Ok(())
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.cert.is_some() || self.development.is_set() { "https" } else { "http" }
    }
}

/// Returns a path as a configuration has it.
fn path(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(crate::commands::literal);
    text.ok_or_else(|| Failure::Wrong(format!("the name of {} is not UTF-8 text", path.display())))
}

/// Returns the URL of a listener on this machine, and whether other machines reach it.
pub(crate) fn url(bound: &[Bound], name: &str, scheme: &str) -> String {
    match bound.iter().find(|bound| bound.name == name).map(|bound| &bound.address) {
        Some(Bind::Tcp(address)) if address.ip().is_unspecified() => {
            format!("{scheme}://localhost:{} (on all addresses of this machine)", address.port())
        }
        Some(Bind::Tcp(address)) => format!("{scheme}://{address}"),
        Some(Bind::Unix(path)) => format!("unix:{}", path.display()),
        None => format!("no listener {name}"),
    }
}

#[cfg(test)]
mod tests {
    use net::Bind;
    use server::Bound;

    use super::url;

    #[test]
    fn urls_can_be_clicked() {
        let at = |text: &str| {
            let bound = |name: &str, address| Bound { name: name.to_owned(), address };
            let other = bound("admin", Bind::Unix("/a.sock".into()));
            url(&[other, bound("web", Bind::Tcp(text.parse().unwrap()))], "web", "http")
        };
        assert_eq!(at("127.0.0.1:8080"), "http://127.0.0.1:8080");
        assert_eq!(at("[::]:80"), "http://localhost:80 (on all addresses of this machine)");
        assert_eq!(at("[::1]:80"), "http://[::1]:80");
    }
}
