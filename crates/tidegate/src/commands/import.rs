//! `tidegate import`: converts another product's configuration, to standard output.

use std::path::PathBuf;

use config::{FileSource, TextSource};

use super::up::exists;
use crate::failure::Failure;
use crate::import::pike;
use crate::output::print;

const EXAMPLES: &str = "\
What has no counterpart is said in comments that begin with \"note:\". What comes out has been
checked.

Examples:
  tidegate import pike pike.yml > tidegate.yaml
  tidegate import pike pike.yml | grep note:";

/// Convert another product's configuration
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Import {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, clap::Subcommand)]
enum From {
    /// Of Pike, version 4
    Pike {
        /// Its configuration
        file: PathBuf,
    },
}

impl Import {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let From::Pike { file } = self.from;
        exists(&file)?;
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        let written = config::document_json(&FileSource::new(file))
            .map_err(|report| Failure::Errors(report.render()))?;
        let text = pike::convert(&written, &name.unwrap_or_default()).map_err(Failure::Wrong)?;
        print(&text)?;
        // What it says may still not fit together: the same name twice, say.
        super::load(&TextSource::new("what was printed", &text)).map(drop)
    }
}
