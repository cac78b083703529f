//! `tidegate import`: converts another product's configuration, to standard output.

use std::path::{Path, PathBuf};

use config::{Document, FileSource, Source as _, TextSource};

use crate::failure::Failure;
use crate::output::print_bytes;
use import::gateway_api::{self, Manifest};
use import::{nginx, openapi, pike, shenyu};

const EXAMPLES: &str = "\
Settings without a counterpart are named in comments that begin with \"note:\". The result is
checked before it is printed.

Examples:
  tidegate import pike pike.yml > tidegate.yaml
  tidegate import openapi openapi.yaml > tidegate.yaml
  tidegate import nginx /etc/nginx/nginx.conf > tidegate.yaml
  tidegate import shenyu shenyu_config_export.zip > tidegate.yaml
  tidegate import gateway-api gateway.yaml routes.yaml services.yaml > tidegate.yaml
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
    /// Convert manifests of the Kubernetes Gateway API
    GatewayApi {
        /// Files with Gateways, routes, Services and what they refer to, in YAML or JSON
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Convert an export of Apache ShenYu's admin
    Shenyu {
        /// The ZIP archive of "Export configs", or the JSON of the admin's /configs/fetch
        file: PathBuf,
    },
}

impl Import {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let files = match &self.from {
            SourceFormat::GatewayApi { files } => &files[..],
            SourceFormat::Pike { file }
            | SourceFormat::Nginx { file }
            | SourceFormat::Openapi { file }
            | SourceFormat::Shenyu { file } => std::slice::from_ref(file),
        };
        let from = files.iter().map(|file| name_of(file)).collect::<Vec<_>>().join(", ");
        let text = match &self.from {
            SourceFormat::Pike { file } => pike::convert(&document(file)?, &from),
            SourceFormat::Openapi { file } => openapi::convert(&document(file)?, &from),
            SourceFormat::Nginx { file } => {
                nginx::convert(&read(file)?, &from, &|pattern| included(file, pattern))
            }
            SourceFormat::Shenyu { file } => {
                let export = std::fs::read(file).map_err(|error| unreadable(file, &error))?;
                shenyu::convert(&export, &from)
            }
            SourceFormat::GatewayApi { files } => gateway_api::convert(&manifests(files)?, &from),
        };
        let text = text.map_err(Failure::Wrong)?;
        print_bytes(text.as_bytes())?;
        // The result may still be inconsistent: the same name twice, for example.
        super::load(&TextSource::new("what was printed", &text)).map(drop)
    }
}

fn name_of(file: &Path) -> String {
    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn unreadable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::Wrong(format!("cannot read {}: {error}", file.display()))
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| unreadable(file, &error))
}

/// The files that nginx includes. Names are relative to the directory of `nginx.conf`: that of the
/// file, or of a file of sites-enabled the one above.
fn included(file: &Path, pattern: &str) -> Result<Vec<nginx::Included>, String> {
    let source = FileSource::new(file);
    let directory = file.parent().unwrap_or(Path::new(""));
    let found = source.included(pattern, Some(directory));
    let found = found.or_else(|_| source.included(pattern, Some(&directory.join(".."))))?;
    Ok(found
        .into_iter()
        .map(|Document { name, text, .. }| nginx::Included { name, text })
        .collect())
}

fn document(file: &Path) -> Result<serde_json::Value, Failure> {
    let document = config::document_json(&FileSource::new(file.to_owned()));
    document.map_err(|report| Failure::Errors(report.render()))
}

/// The documents of all files.
fn manifests(files: &[PathBuf]) -> Result<Vec<Manifest>, Failure> {
    let mut manifests = Vec::new();
    for file in files {
        for (line, text) in gateway_api::split(&read(file)?) {
            let name = name_of(file);
            let value = config::document_json(&TextSource::new(&name, &text));
            let value = value.map_err(|report| Failure::Errors(report.render()))?;
            manifests.push(Manifest { place: format!("{name}:{line}"), value });
        }
    }
    Ok(manifests)
}
