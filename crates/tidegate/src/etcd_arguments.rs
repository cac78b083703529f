//! Options of commands that use etcd.

use std::path::{Path, PathBuf};

use etcd::{Credentials, EtcdSettings};
use net::tls::{CertificateKey, ClientOptions, ClientTls, TlsVersion};
use server::EtcdAddress;

use crate::failure::Failure;

/// How etcd is reached.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "etcd")]
pub(crate) struct EtcdArguments {
    /// The user of etcd; the password is in --etcd-password-file or TIDEGATE_ETCD_PASSWORD
    #[arg(long, value_name = "NAME")]
    etcd_user: Option<String>,

    /// A file that holds the password of the user
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,

    /// With etcds://, the certificate authorities of etcd: a PEM file; those of the system
    /// without it
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<PathBuf>,

    /// The certificate that is presented to etcd: a PEM file
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,

    /// The private key of the certificate: a PEM file
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
}

impl EtcdArguments {
    /// Settings of a client for this address.
    pub(crate) fn settings(&self, address: &EtcdAddress) -> Result<EtcdSettings, Failure> {
        let mut settings = address.settings().map_err(Failure::Wrong)?;
        settings.credentials = self.credentials()?;
        if address.is_secure() {
            settings.tls = Some(self.tls()?);
        } else if self.etcd_ca.is_some() || self.etcd_cert.is_some() {
            let why = "--etcd-ca and --etcd-cert need TLS: write etcds:// instead of etcd://";
            return Err(Failure::Wrong(why.to_owned()));
        }
        Ok(settings)
    }

    fn credentials(&self) -> Result<Option<Credentials>, Failure> {
        let Some(user) = self.etcd_user.clone() else { return Ok(None) };
        let password = match &self.etcd_password_file {
            Some(file) => String::from_utf8(read(file)?)
                .map_err(|_| Failure::Wrong(format!("{} is not UTF-8 text", file.display())))?,
            None => std::env::var("TIDEGATE_ETCD_PASSWORD").unwrap_or_default(),
        };
        Ok(Some(Credentials { user, password: password.trim_end().to_owned() }))
    }

    fn tls(&self) -> Result<ClientTls, Failure> {
        let authorities = self.etcd_ca.as_deref().map(read).transpose()?;
        let certificate = match (&self.etcd_cert, &self.etcd_key) {
            (Some(cert), Some(key)) => {
                let now = net::clock::wall_secs();
                let loaded = CertificateKey::load(&read(cert)?, &read(key)?, None, now);
                let fail = |why| Failure::Wrong(format!("{}: {why}", cert.display()));
                Some(loaded.map_err(fail)?)
            }
            _ => None,
        };
        let tls = ClientTls::new(ClientOptions {
            authorities,
            verify: true,
            certificate,
            min_version: TlsVersion::Tls12,
            protocols: Vec::new(),
        });
        tls.map_err(|why| Failure::Wrong(format!("--etcd-ca: {why}")))
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file)
        .map_err(|error| Failure::Wrong(format!("cannot read {}: {error}", file.display())))
}
