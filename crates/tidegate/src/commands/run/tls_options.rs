//! Options of https, with the names and the meaning of uvicorn, gunicorn and granian.

use std::path::PathBuf;

use config::TextSource;
use serde_json::{Value, json};

use super::python::file;
use crate::commands::{literal, load};
use crate::failure::Failure;
use crate::serving::DevelopmentOptions;

#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "TLS of Python applications")]
pub(super) struct TlsOptions {
    /// Serve https with this certificate, followed by those of its issuers: a PEM file, read again
    /// on SIGHUP
    #[arg(
        long,
        value_name = "FILE",
        aliases = ["certfile", "ssl-certificate", "cert"],
        conflicts_with = "dev_tls"
    )]
    ssl_certfile: Option<PathBuf>,

    /// The private key of the certificate, not encrypted [default: the file of the certificate]
    #[arg(long, value_name = "FILE", aliases = ["keyfile", "key"], requires = "ssl_certfile")]
    ssl_keyfile: Option<PathBuf>,

    /// The certificate authorities that issue certificates of clients: a PEM file; with
    /// --ssl-cert-reqs
    #[arg(
        long,
        value_name = "FILE",
        aliases = ["ca-certs", "ssl-ca"],
        requires_all = ["ssl_certfile", "ssl_cert_reqs"]
    )]
    ssl_ca_certs: Option<PathBuf>,

    /// Certificates of clients, as in Python's ssl module: 0 asks for none, 1 verifies one that is
    /// presented, 2 requires one
    #[arg(
        long,
        value_name = "0|1|2",
        alias = "cert-reqs",
        value_parser = clap::value_parser!(u8).range(0..=2),
        requires = "ssl_certfile"
    )]
    ssl_cert_reqs: Option<u8>,

    #[command(flatten)]
    development: DevelopmentOptions,
}

impl TlsOptions {
    pub(super) fn scheme(&self) -> &'static str {
        let is_set = self.ssl_certfile.is_some() || self.development.is_set();
        if is_set { "https" } else { "http" }
    }

    /// True if an option other than `--dev-tls` is given.
    pub(super) fn has_files(&self) -> bool {
        *self != TlsOptions { development: self.development.clone(), ..TlsOptions::default() }
    }

    /// Returns the file of the certificate for development and its key, if it is requested.
    pub(super) fn development(&self) -> Result<Option<PathBuf>, Failure> {
        self.development.certificate()
    }

    /// Returns `tls` of the listeners, without errors: workers would report them one by one.
    pub(super) fn settings(&self) -> Result<Option<Value>, Failure> {
        let development = self.development.certificate()?;
        let Some(cert) = self.ssl_certfile.as_ref().or(development.as_ref()) else {
            return Ok(None);
        };
        let cert = literal(&file(cert)?);
        let key = match &self.ssl_keyfile {
            Some(key) => literal(&file(key)?),
            None => cert.clone(),
        };
        let mut tls = json!({ "certificates": [{ "cert": cert, "key": key }] });
        match (self.ssl_cert_reqs.unwrap_or_default(), &self.ssl_ca_certs) {
            (0, _) => {}
            (_, None) => {
                return Err(Failure::Wrong(
                    "--ssl-cert-reqs needs --ssl-ca-certs FILE: the authorities whose \
                     certificates clients may present"
                        .to_owned(),
                ));
            }
            (reqs, Some(ca)) => {
                let mode = if reqs == 1 { "optional" } else { "required" };
                tls["client_auth"] = json!({ "ca": literal(&file(ca)?), "mode": mode });
            }
        }
        let listener = json!({ "bind": super::configuration::ANYWHERE, "tls": tls });
        let checked = json!({ "listeners": { "main": listener } }).to_string();
        load(&TextSource::new("--ssl-certfile, --ssl-keyfile, --ssl-ca-certs", &checked))?;
        Ok(Some(tls))
    }
}
