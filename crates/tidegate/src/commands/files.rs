//! `tidegate files DIR`: serve a directory, without a configuration.

use std::path::PathBuf;

use config::TextSource;
use serde_json::{Value, json};
use server::Bound;
use settings::Address;

use crate::failure::Failure;
use crate::serving::{ServingOptions, TlsOptions, serve, url};

const EXAMPLES: &str = "\
Hidden files are not served, and links cannot lead out of the directory. For error pages, several
directories or headers, write a configuration: see examples/static-site.yaml.

Examples:
  tidegate files .
  tidegate files ./dist --spa index.html
  tidegate files /srv/share --listing --bind :8000";

/// Serve a directory
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Files {
    /// The directory
    dir: PathBuf,

    /// The address to listen on: 127.0.0.1:8080, :8080 for all addresses, or unix:/path
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8080",
        value_parser = super::address
    )]
    bind: Address,

    /// List directories without index.html
    #[arg(long)]
    listing: bool,

    /// Serve this file for paths without a file, for single-page applications
    #[arg(long, value_name = "FILE")]
    spa: Option<String>,

    #[command(flatten)]
    tls: TlsOptions,

    #[command(flatten)]
    serving: ServingOptions,
}

impl Files {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let shown = self.dir.display().to_string();
        let dir = std::fs::canonicalize(&self.dir)
            .map_err(|error| Failure::Wrong(format!("cannot serve {shown}: {error}")))?;
        if !dir.is_dir() {
            return Err(Failure::Wrong(format!("{shown} is not a directory")));
        }
        let Some(root) = dir.to_str() else {
            return Err(Failure::Wrong(format!("the name of {shown} is not UTF-8 text")));
        };
        let mut configuration = configuration(root, &self.bind, self.listing, self.spa.as_deref());
        self.tls.add_to(&mut configuration["listeners"]["files"])?;
        let scheme = self.tls.scheme();
        let told =
            move |bound: &[Bound]| format!("serving {shown} on {}\n", url(bound, "files", scheme));
        let text = configuration.to_string();
        serve(TextSource::new("tidegate files", &text), self.serving, told)
    }
}

/// Returns the configuration as JSON, which is YAML and quotes any path.
fn configuration(root: &str, bind: &Address, listing: bool, spa: Option<&str>) -> Value {
    let mut files = json!({ "root": super::literal(root), "listing": listing });
    if let Some(spa) = spa {
        files["spa"] = json!(super::literal(spa));
    }
    json!({
        "listeners": { "files": { "bind": bind.to_string() } },
        "routes": [{
            "name": "files",
            "match": { "path": "/{*file}" },
            "handler": { "files": files },
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::configuration;
    use crate::commands::errors;

    #[test]
    fn any_directory_can_be_served() {
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("it's ${HERE}: \"{*x}\"");
        std::fs::create_dir(&odd).unwrap();
        let text =
            configuration(odd.to_str().unwrap(), &":8080".parse().unwrap(), true, Some("a.html"));
        assert_eq!(errors(&text.to_string()), "");
    }
}
