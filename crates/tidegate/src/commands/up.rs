//! `tidegate up [FILE]`: serve a configuration.

use std::path::{Path, PathBuf};

use config::FileSource;

use crate::failure::Failure;
use crate::serving::{DevelopmentOptions, ServingOptions, serve};

const EXAMPLES: &str = "\
The file is watched: a valid change is applied without losing a request, an invalid one is rejected
and its errors are logged. SIGHUP reloads at once, SIGTERM finishes the requests in flight and
exits, a second SIGINT exits at once.
With --dev-tls every listener with `tls` presents a certificate for development in place of its own,
also where `tls: {}` names none.

Examples:
  tidegate up
  tidegate up --dev-tls=shop.localhost
  tidegate up /etc/tidegate/site.yaml --workers 4 --log-format json
  tidegate check && tidegate up";

/// Serve a configuration
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Up {
    /// The configuration
    #[arg(default_value = super::DEFAULT_FILE)]
    file: PathBuf,

    #[command(flatten)]
    development: DevelopmentOptions,

    #[command(flatten)]
    serving: ServingOptions,
}

impl Up {
    pub(crate) fn run(self) -> Result<(), Failure> {
        exists(&self.file)?;
        let mut source = FileSource::new(self.file);
        if let Some(certificate) = self.development.certificate()? {
            source = source.with_development_certificate(certificate);
        }
        serve(source, self.serving, |_| String::new())
    }
}

/// Fails with advice for beginners if the configuration does not exist.
pub(crate) fn exists(file: &Path) -> Result<(), Failure> {
    if file.try_exists().unwrap_or(true) {
        return Ok(());
    }
    Err(Failure::Wrong(format!(
        "there is no file {}\n\n\
         To look around without one, run `tidegate demo`. To begin, write this into it:\n\n\
         {STARTER}",
        file.display()
    )))
}

/// A minimal configuration.
const STARTER: &str = "  listeners: { web: { bind: \"127.0.0.1:8080\" } }
  upstreams: { app: { servers: [\"127.0.0.1:3000\"] } }
  routes:
    - match: { path: \"/{*rest}\" }
      handler: { upstream: app }
";

#[cfg(test)]
mod tests {
    use super::STARTER;
    use crate::commands::errors;

    #[test]
    fn the_starter_is_right() {
        assert_eq!(errors(STARTER), "");
    }
}
