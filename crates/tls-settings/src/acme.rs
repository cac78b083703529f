//! `tls.acme`: certificates that a certificate authority issues by ACME (RFC 8555).
//!
//! Owns what is written and where the issued certificates are stored; the crate `acme` obtains
//! them. A stored certificate is read with the configuration, like those of `certificates`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};
use net::tls::{CertificateKey, CertificateName};
use settings::{Node, Reader, Secret, Setting, Span, Spanned};

use crate::certificate::{read_file, wall_secs};

/// Names of one certificate; the limit of Let's Encrypt.
const DOMAINS_MAX: usize = 100;

/// Certificates that are obtained and renewed by ACME. Using it agrees to the terms of service of
/// the certificate authority. Until the first certificate is issued, the listener rejects
/// handshakes.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub struct AcmeSettings {
    /// The names of the certificate. They must lead to this server; a wildcard needs `dns_hook`.
    #[setting(example = ["shop.example.com"])]
    pub domains: Vec<Spanned<String>>,
    /// Where the certificate authority sends warnings.
    #[setting(example = "ops@example.com")]
    pub email: Option<String>,
    /// The directory of the certificate authority.
    #[setting(default = "https://acme-v02.api.letsencrypt.org/directory")]
    pub directory: String,
    /// An account at the certificate authority, for authorities that issue only to their customers
    /// (external account binding, RFC 8555 7.3.4).
    #[setting(example = { "key_id": "kid-1", "mac_key": "bWFjLWtleQ" })]
    pub eab: Option<ExternalAccount>,
    /// The certificate authorities of the directory's own https, a PEM file; the system's unless
    /// set.
    #[setting(example = "internal.pem")]
    ca: Option<Spanned<String>>,
    /// How the server proves that it has the names. Unless set, `dns-01` with `dns_hook`, otherwise
    /// `http-01` and `tls-alpn-01` alternate until one succeeds.
    #[setting(example = "http-01")]
    pub challenge: Option<AcmeChallenge>,
    /// A command that sets and removes DNS records, with its arguments. `present NAME VALUE` is
    /// appended before the validation and `cleanup NAME VALUE` after it: `NAME` is the name of the
    /// TXT record. It ends once the record is visible.
    #[setting(example = ["/usr/local/bin/dns-record"])]
    pub dns_hook: Option<Vec<String>>,
    /// The directory of the account keys and certificates. Unless set, `acme` in
    /// `$STATE_DIRECTORY`, else in `tidegate` of `$XDG_STATE_HOME`, `/var/lib` (as root) or
    /// `~/.local/state`.
    #[setting(example = "/var/lib/tidegate/acme")]
    storage: Option<Spanned<String>>,
}

/// An account that the certificate authority has issued by other means.
#[derive(Clone, Debug, PartialEq, Eq, Setting)]
#[setting(check = check_external_account)]
pub struct ExternalAccount {
    /// The identifier of the key.
    #[setting(example = "kid-1")]
    pub key_id: String,
    /// The key, in base64url as the authority shows it.
    #[setting(example = "bWFjLWtleQ")]
    mac_key: Secret,
}

impl ExternalAccount {
    /// The key itself; `None` if it is not base64url.
    pub fn mac_key(&self) -> Option<Vec<u8>> {
        MAC_KEY_ENCODING.decode(self.mac_key.expose()).ok()
    }
}

/// base64url, with padding or without.
const MAC_KEY_ENCODING: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn check_external_account(account: &ExternalAccount, node: &Node, reader: &mut Reader<'_>) {
    if account.mac_key().is_none() {
        reader.error(node.span, "mac_key is not base64url");
    }
}

/// How the server proves that it has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub enum AcmeChallenge {
    /// Every listener without TLS responds to `/.well-known/acme-challenge/`; the certificate
    /// authority connects to port 80.
    #[setting(word = "http-01")]
    Http01,
    /// The listener presents a special certificate; the certificate authority connects to port 443.
    #[setting(word = "tls-alpn-01")]
    TlsAlpn01,
    /// `dns_hook` sets a DNS record.
    #[setting(word = "dns-01")]
    Dns01,
}

/// What the crate `acme` needs to obtain one certificate. Equal plans share one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmePlan {
    /// Sorted, in lower case.
    pub domains: Vec<String>,
    pub email: Option<String>,
    pub directory: String,
    pub external_account: Option<ExternalAccount>,
    /// Certificate authorities of the directory in PEM.
    pub authorities: Option<Vec<u8>>,
    pub challenge: Option<AcmeChallenge>,
    pub dns_hook: Option<Vec<String>>,
    /// The file of the certificate, its issuers and its key.
    pub certificate_file: PathBuf,
    /// The file of the account.
    pub account_file: PathBuf,
}

fn check(settings: &AcmeSettings, node: &Node, reader: &mut Reader<'_>) {
    let has_hook = settings.dns_hook.as_ref().is_some_and(|hook| !hook.is_empty());
    if settings.dns_hook.is_some() && !has_hook {
        reader.error(node.span, "dns_hook names no command");
    }
    if settings.challenge == Some(AcmeChallenge::Dns01) && !has_hook {
        reader.error(node.span, "the challenge dns-01 needs dns_hook");
    }
    if !settings.directory.starts_with("https://") {
        reader.error(node.span, "the directory is a URL that begins with https://");
    }
    if settings.email.as_ref().is_some_and(|email| !email.contains('@')) {
        reader.error(node.span, "email is an address such as ops@example.com");
    }
    let count = settings.domains.len();
    if count == 0 {
        reader.error(node.span, "without domains there is no certificate");
    } else if count > DOMAINS_MAX {
        reader.error(node.span, format!("a certificate has at most {DOMAINS_MAX} names"));
    } else {
        check_domains(settings, has_hook, reader);
    }
}

fn check_domains(settings: &AcmeSettings, has_hook: bool, reader: &mut Reader<'_>) {
    for domain in &settings.domains {
        let name = domain.value.strip_prefix("*.").unwrap_or(&domain.value);
        let is_address = name.parse::<IpAddr>().is_ok();
        if is_address || !name.contains('.') || CertificateName::new(name).is_none() {
            let why = format!("\"{}\" is not a public DNS name", domain.value);
            reader.error(domain.span, why);
        } else if domain.value.starts_with("*.") && !has_hook {
            let why = "a wildcard is proven by a DNS record: write dns_hook";
            reader.error(domain.span, why);
        }
    }
}

impl AcmeSettings {
    /// Returns the plan, and the stored certificate if there is a usable one.
    pub(crate) fn plan(
        &self,
        span: Span,
        reader: &mut Reader<'_>,
    ) -> Option<(AcmePlan, Option<CertificateKey>)> {
        let storage = match &self.storage {
            Some(path) => reader.resolve(path.span, Path::new(&path.value)),
            None => state_directory().map(|state| state.join("acme")).or_else(|| {
                reader
                    .error(span, "there is no directory for certificates: HOME is not set")
                    .help("write storage: /var/lib/tidegate/acme");
                None
            })?,
        };
        let authorities = match &self.ca {
            Some(ca) => Some(read_file(ca, reader)?),
            None => None,
        };
        let mut domains: Vec<String> =
            self.domains.iter().map(|domain| domain.value.to_ascii_lowercase()).collect();
        domains.sort_unstable();
        domains.dedup();
        let first = domains.first()?.replace('*', "_");
        let account = [&*self.directory, self.email.as_deref().unwrap_or_default()];
        let external = self.eab.as_ref().map(|external| &*external.key_id);
        let account = digest(account.into_iter().chain(external));
        let names =
            digest([&*self.directory].into_iter().chain(domains.iter().map(|name| &**name)));
        let certificate_file = storage.join(format!("{first}-{names}.pem"));
        let stored = stored(&certificate_file, span, reader);
        let plan = AcmePlan {
            domains,
            email: self.email.clone(),
            directory: self.directory.clone(),
            external_account: self.eab.clone(),
            authorities,
            challenge: self.challenge,
            dns_hook: self.dns_hook.clone(),
            certificate_file,
            account_file: storage.join(format!("account-{account}.json")),
        };
        Some((plan, stored))
    }
}

/// Reads a stored certificate. One that is unusable, such as an expired one, is replaced by a new
/// one: it is not an error of the configuration.
fn stored(file: &Path, span: Span, reader: &mut Reader<'_>) -> Option<CertificateKey> {
    if !file.exists() {
        return None;
    }
    let content = reader.read_file(span, file)?;
    CertificateKey::load(&content, &content, None, wall_secs()).ok()
}

/// Distinguishes files whose names would otherwise be the same (FNV-1a): every release finds the
/// files of those before it.
fn digest<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let bytes = texts.into_iter().flat_map(|text| text.bytes().chain([0]));
    let hash = bytes
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

/// The directory for what outlives the process.
pub fn state_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    // systemd lists several with colons between them.
    let systemd = variable("STATE_DIRECTORY").and_then(|list| {
        let first = list.to_str()?.split(':').next()?;
        Some(PathBuf::from(first))
    });
    let of_user = || variable("XDG_STATE_HOME").map(|home| PathBuf::from(home).join("tidegate"));
    let of_root = || (net::user_id() == 0).then(|| PathBuf::from("/var/lib/tidegate"));
    let of_home = || variable("HOME").map(|home| Path::new(&home).join(".local/state/tidegate"));
    systemd.or_else(of_user).or_else(of_root).or_else(of_home)
}
