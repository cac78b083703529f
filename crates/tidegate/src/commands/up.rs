//! `tidegate up [FILE | etcd://…]`: serve a configuration.

use std::path::{Path, PathBuf};

use config::FileSource;
use server::{EtcdAddress, EtcdOptions, EtcdSource, hostname, node_name};

use crate::etcd_arguments::EtcdArguments;
use crate::failure::Failure;
use crate::serving::{DevelopmentOptions, ServingOptions, serve, serve_etcd};

const EXAMPLES: &str = "\
The file is watched: a valid change is applied without losing a request, an invalid one is rejected
and its errors are logged. SIGHUP reloads at once, SIGTERM finishes the requests in flight and
exits, a second SIGINT exits at once.
With --dev-tls every listener with `tls` presents a certificate for development in place of its own,
also where `tls: {}` names none.
With etcd://HOST,…/PREFIX the configuration is the documents in etcd that `tidegate ctl apply`
wrote, and every change of them is applied. etcds:// is the same with TLS.

Examples:
  tidegate up
  tidegate up --dev-tls=shop.localhost
  tidegate up /etc/tidegate/site.yaml --workers 4 --log-format json
  tidegate up etcd://10.0.0.5,10.0.0.6,10.0.0.7/shop
  tidegate check && tidegate up";

/// Serve a configuration
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Up {
    /// The configuration
    #[arg(default_value = super::DEFAULT_FILE, value_name = "FILE|etcd://HOST,…/PREFIX")]
    file: PathBuf,

    /// With etcd, the name under which this server reports; the name of the machine without it
    #[arg(long, value_name = "NAME", help_heading = "etcd")]
    node: Option<String>,

    /// With etcd, the directory of the copy that this server starts with if etcd does not respond
    #[arg(long, value_name = "DIRECTORY", help_heading = "etcd")]
    state_dir: Option<PathBuf>,

    #[command(flatten)]
    etcd: EtcdArguments,

    #[command(flatten)]
    development: DevelopmentOptions,

    #[command(flatten)]
    serving: ServingOptions,
}

impl Up {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(text) = self.file.to_str().filter(|text| EtcdAddress::is_one(text)) {
            let address = text.parse().map_err(Failure::Wrong)?;
            return self.follow(address);
        }
        exists(&self.file)?;
        let mut source = FileSource::new(self.file);
        if let Some(certificate) = self.development.certificate()? {
            source = source.with_development_certificate(certificate);
        }
        serve(source, self.serving, |_| String::new())
    }

    fn follow(self, address: EtcdAddress) -> Result<(), Failure> {
        if self.development.is_set() {
            return Err(Failure::Wrong("--dev-tls is for a configuration in files".to_owned()));
        }
        let settings = self.etcd.settings(&address)?;
        let node = node_name(&self.node.unwrap_or_else(hostname))
            .map_err(|why| Failure::Wrong(format!("--node: {why}")))?;
        self.serving.apply_format();
        let options = EtcdOptions { address, settings, node, state_dir: self.state_dir };
        serve_etcd(EtcdSource::open(options).map_err(Failure::Failed)?, self.serving)
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
