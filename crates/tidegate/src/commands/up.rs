//! `tidegate up [FILE]`: serve a configuration.

use std::path::{Path, PathBuf};

use config::FileSource;

use crate::failure::Failure;
use crate::serving::{ServingOptions, serve};

const EXAMPLES: &str = "\
The file is watched: a change that is right goes into use without losing a request, one that is
wrong is rejected and its errors are logged. SIGHUP reloads at once, SIGTERM finishes what is under
way and ends, a second SIGINT ends at once.

Examples:
  tidegate up
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
    serving: ServingOptions,
}

impl Up {
    pub(crate) fn run(self) -> Result<(), Failure> {
        exists(&self.file)?;
        serve(FileSource::new(self.file), self.serving, |_| String::new())
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
