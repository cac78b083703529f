//! A local certificate authority for development, and a certificate that it has issued.
//!
//! Both are stored in the user's state directory, readable by that user only, and reused until they
//! expire soon, so that the authority has to be trusted only once. Never involved unless it is
//! requested on the command line.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use net::tls::{CertificateKey, CertificateName};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::storage::{create_directory, replace};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The validity of the authority.
const AUTHORITY_DAYS: u32 = 3650;
/// The validity of the certificate: macOS and iOS reject more than 825 days.
const CERTIFICATE_DAYS: u32 = 365;
/// What expires within this time is replaced.
const RENEWAL_DAYS: u32 = 30;
/// Names that a certificate always has.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The files of a certificate for development.
#[derive(Debug)]
pub struct DevelopmentCertificate {
    /// The certificate, its authority and its key.
    pub pair: PathBuf,
    /// The certificate of the authority.
    pub authority: PathBuf,
}

impl DevelopmentCertificate {
    /// Returns the stored certificate for these names and `localhost`; issues it if there is none.
    pub fn prepare(names: &[String]) -> Result<DevelopmentCertificate, String> {
        let state = tls_settings::state_directory()
            .ok_or("there is no directory for certificates: HOME is not set")?;
        let directory = state.join("dev-tls");
        DevelopmentCertificate::in_directory(&directory, names)
            .map_err(|why| format!("{}: {why}", directory.display()))
    }

    fn in_directory(directory: &Path, names: &[String]) -> Result<DevelopmentCertificate, String> {
        let authority = directory.join("ca.pem");
        let pair = directory.join("site.pem");
        let names = all_names(names)?;
        create_directory(&authority).map_err(text)?;
        // Two processes at once would mix their keys.
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(directory.join("lock")).map_err(text)?;
        lock.lock().map_err(text)?;
        let key = directory.join("ca.key");
        let issuer = match stored_authority(&authority, &key) {
            Some(issuer) => issuer,
            None => create_authority(&authority, &key)?,
        };
        let authority_pem = std::fs::read_to_string(&authority).map_err(text)?;
        if !is_usable(&pair, &authority_pem, &names) {
            let content = certificate(&issuer, &authority_pem, names)?;
            replace(&pair, content.as_bytes()).map_err(text)?;
        }
        Ok(DevelopmentCertificate { pair, authority })
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn all_names(names: &[String]) -> Result<Vec<String>, String> {
    let is_name = |name: &str| CertificateName::new(name.strip_prefix("*.").unwrap_or(name));
    if let Some(other) = names.iter().find(|name| is_name(name).is_none()) {
        return Err(format!("\"{other}\" is neither a DNS name nor an IP address"));
    }
    let given = names.iter().map(|name| name.to_ascii_lowercase());
    let mut all: Vec<_> = NAMES.iter().map(|name| (*name).to_owned()).chain(given).collect();
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// True if the stored certificate is of this authority, for these names, and expires late enough.
fn is_usable(pair: &Path, authority: &str, names: &[String]) -> bool {
    let content = std::fs::read_to_string(pair).unwrap_or_default();
    let loaded = CertificateKey::load(content.as_bytes(), content.as_bytes(), None, renewal_secs());
    let has_names = loaded.is_ok_and(|stored| {
        let mut stored: Vec<_> = stored.details.names.iter().map(|name| name.as_str()).collect();
        stored.sort_unstable();
        stored == names
    });
    has_names && content.contains(authority)
}

/// The time at which what is stored must still be valid, in seconds since 1970.
fn renewal_secs() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now + DAY * RENEWAL_DAYS).as_secs()
}

fn params(names: Vec<String>, name: &str, days: u32) -> Result<CertificateParams, String> {
    let mut params = CertificateParams::new(names).map_err(text)?;
    let now = SystemTime::now();
    params.not_before = (now - DAY).into();
    params.not_after = (now + DAY * days).into();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

fn authority_params() -> Result<CertificateParams, String> {
    let name = "Tidegate development authority";
    let mut params = params(Vec::new(), name, AUTHORITY_DAYS)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn stored_authority(certificate: &Path, key: &Path) -> Option<Issuer<'static, KeyPair>> {
    let (certificate, key) = (std::fs::read(certificate).ok()?, std::fs::read(key).ok()?);
    CertificateKey::load(&certificate, &key, None, renewal_secs()).ok()?;
    let key = KeyPair::from_pem(std::str::from_utf8(&key).ok()?).ok()?;
    Some(Issuer::new(authority_params().ok()?, key))
}

fn create_authority(
    certificate: &Path,
    key_file: &Path,
) -> Result<Issuer<'static, KeyPair>, String> {
    let key = KeyPair::generate().map_err(text)?;
    let params = authority_params()?;
    let signed = params.self_signed(&key).map_err(text)?;
    replace(key_file, key.serialize_pem().as_bytes()).map_err(text)?;
    replace(certificate, signed.pem().as_bytes()).map_err(text)?;
    Ok(Issuer::new(params, key))
}

/// Issues a certificate: it, its authority and its key in PEM.
fn certificate(
    issuer: &Issuer<'static, KeyPair>,
    authority: &str,
    names: Vec<String>,
) -> Result<String, String> {
    let mut params = params(names, "Tidegate development", CERTIFICATE_DAYS)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(text)?;
    let certificate = params.signed_by(&key, issuer).map_err(text)?;
    Ok(certificate.pem() + authority + &key.serialize_pem())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_certificate_is_issued_once_and_again_for_other_names() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("dev-tls");
        let prepare = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            let files = DevelopmentCertificate::in_directory(&directory, &names).unwrap();
            (std::fs::read(files.pair).unwrap(), std::fs::read(files.authority).unwrap())
        };
        let first = prepare(&[]);
        assert_eq!(prepare(&[]), first);
        let pair = CertificateKey::load(&first.0, &first.0, None, renewal_secs()).unwrap();
        assert_eq!(pair.details.names.len(), 3);
        let other = prepare(&["app.test", "*.app.test", "192.0.2.1"]);
        assert!(other.0 != first.0 && other.1 == first.1, "the authority stays");
        assert_eq!(prepare(&["*.APP.test", "192.0.2.1", "app.test", "localhost"]), other);
        // Without its key the authority is another one, and so is the certificate.
        std::fs::remove_file(directory.join("ca.key")).unwrap();
        let third = prepare(&["app.test"]);
        assert!(third.0 != other.0 && third.1 != other.1);
        for file in ["ca.pem", "ca.key", "site.pem"] {
            let mode = std::fs::metadata(directory.join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        let invalid = ["a b".to_owned()];
        let error = DevelopmentCertificate::in_directory(&directory, &invalid);
        assert!(error.is_err(), "{error:?}");
    }

    #[test]
    fn what_expires_soon_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let prepare = || DevelopmentCertificate::in_directory(directory.path(), &[]).unwrap();
        let files = prepare();
        let authority = std::fs::read_to_string(&files.authority).unwrap();
        let issuer = stored_authority(&files.authority, &directory.path().join("ca.key")).unwrap();
        let mut params = params(all_names(&[]).unwrap(), "old", RENEWAL_DAYS - 1).unwrap();
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().unwrap();
        let old = params.signed_by(&key, &issuer).unwrap().pem() + &authority;
        let old = old + &key.serialize_pem();
        std::fs::write(&files.pair, &old).unwrap();
        prepare();
        assert_ne!(std::fs::read_to_string(&files.pair).unwrap(), old);
    }
}
