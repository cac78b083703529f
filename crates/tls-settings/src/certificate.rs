//! A certificate with its key, by the names of their files.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use net::tls::{CertificateKey, PairError, TlsVersion};
use settings::{Node, Reader, Schema, SchemaBuilder, Setting, Spanned};

/// A certificate with its private key.
#[derive(Clone, Debug, PartialEq)]
pub struct CertificateSetting(pub CertificateKey);

/// A certificate with its private key. Both are PEM files; they are checked together, watched, and
/// replaced without dropping a connection.
#[derive(Clone, Debug, PartialEq, Setting)]
struct CertificateFiles {
    /// The certificate, followed by those of its issuers: each is issued by the next one.
    #[setting(example = "site.pem")]
    cert: Spanned<String>,
    /// The private key of the first certificate; not encrypted.
    #[setting(example = "site.key")]
    key: Spanned<String>,
    /// An OCSP response in DER that is stapled to the certificate; watched as well. One that has
    /// expired, is of another certificate or does not report it as good is not sent.
    #[setting(example = "site.ocsp")]
    ocsp: Option<Spanned<String>>,
}

impl Setting for CertificateSetting {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        CertificateFiles::schema(defs)
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let files = CertificateFiles::read(node, reader)?;
        let certificate = read_file(&files.cert, reader);
        let key = read_file(&files.key, reader);
        let ocsp = files.ocsp.as_ref().map(|file| (file, read_file(file, reader)));
        let (stapled, ocsp) = match ocsp {
            Some((file, content)) => (file, Some(content?)),
            None => (&files.cert, None),
        };
        let loaded = CertificateKey::load(&certificate?, &key?, ocsp, wall_secs());
        let pair = loaded.map_err(|error| {
            let file = match &error {
                PairError::Certificate(_) => &files.cert,
                PairError::Key(_) => &files.key,
                PairError::Ocsp(_) => stapled,
            };
            reader.error(file.span, format!("{}: {error}", file.value));
        });
        pair.ok().map(CertificateSetting)
    }
}

/// The content of a file whose path stands at this place.
pub(crate) fn read_file(path: &Spanned<String>, reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    reader.read_file(path.span, Path::new(&path.value))
}

/// Certificates are valid by the clock of the wall, also where no worker's clock runs (`check`).
pub(crate) fn wall_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Setting)]
pub(crate) enum Version {
    /// TLS 1.2.
    #[setting(word = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[setting(word = "1.3")]
    Tls13,
}

impl From<Version> for TlsVersion {
    fn from(version: Version) -> Self {
        match version {
            Version::Tls12 => TlsVersion::Tls12,
            Version::Tls13 => TlsVersion::Tls13,
        }
    }
}
