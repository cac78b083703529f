//! `tidegate import`: converts another product's configuration, to standard output.

use std::path::PathBuf;

use config::{FileSource, TextSource};

use super::up::exists;
use crate::failure::Failure;
use crate::output::print;
use import::{nginx, openapi, pike, shenyu};

const EXAMPLES: &str = "\
Settings without a counterpart are named in comments that begin with \"note:\". The result is
checked before it is printed.

Examples:
  tidegate import pike pike.yml > tidegate.yaml
  tidegate import openapi openapi.yaml > tidegate.yaml
  tidegate import nginx /etc/nginx/nginx.conf > tidegate.yaml
  tidegate import shenyu shenyu_config_export.zip > tidegate.yaml
  tidegate import pike pike.yml | grep note:";

/// Convert another product's configuration
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Import {
    #[command(subcommand)]
    from: SourceFormat,
}

#[derive(Debug, clap::Subcommand)]
enum SourceFormat {
    /// Convert a configuration of Pike, version 4
    Pike {
        /// Its configuration
        file: PathBuf,
    },
    /// Convert the common subset of a configuration of nginx
    Nginx {
        /// Its configuration, or a file of sites-enabled
        file: PathBuf,
    },
    /// Make routes that validate requests from an OpenAPI document, version 3.0 or 3.1
    Openapi {
        /// The document, in YAML or JSON
        file: PathBuf,
    },
    /// Convert an export of Apache ShenYu's admin
    Shenyu {
        /// The ZIP archive of "Export configs", or the JSON of the admin's /configs/fetch
        file: PathBuf,
    },
}

impl Import {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (SourceFormat::Pike { file }
        | SourceFormat::Nginx { file }
        | SourceFormat::Openapi { file }
        | SourceFormat::Shenyu { file }) = &self.from;
        exists(file)?;
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let document = || {
            let document = config::document_json(&FileSource::new(file.clone()));
            document.map_err(|report| Failure::Errors(report.render()))
        };
        let unreadable = |error| Failure::Wrong(format!("cannot read {}: {error}", file.display()));
        let text = match &self.from {
            SourceFormat::Pike { .. } => pike::convert(&document()?, &name),
            SourceFormat::Openapi { .. } => openapi::convert(&document()?, &name),
            SourceFormat::Nginx { .. } => {
                nginx::convert(&std::fs::read_to_string(file).map_err(unreadable)?, &name)
            }
            SourceFormat::Shenyu { .. } => {
                shenyu::convert(&std::fs::read(file).map_err(unreadable)?, &name)
            }
        };
        let text = text.map_err(Failure::Wrong)?;
        print(&text)?;
        // The result may still be inconsistent: the same name twice, for example.
        super::load(&TextSource::new("what was printed", &text)).map(drop)
    }
}
