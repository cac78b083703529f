//! Hashes of passwords as they are written in the configuration and in htpasswd files.
//!
//! Promises that a hash that would take too long or too much memory is refused when it is read, and
//! that no hash is shown.

use std::fmt;
use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::PasswordVerifier;
use argon2::password_hash::phc::PasswordHash as Phc;
use scrypt::Scrypt;
use settings::{Node, Reader, Schema, SchemaBuilder, Secret, Setting};

/// The most memory that verifying one password may take, in KiB.
const MEMORY_KIB_MAX: u32 = 256 * 1024;
/// The most passes over the memory (argon2).
const PASSES_MAX: u32 = 16;
/// The highest cost of bcrypt: about three seconds.
const BCRYPT_COST_MAX: u32 = 15;

/// The hash of a password; cloning it copies nothing.
#[derive(Clone, PartialEq)]
pub(crate) enum PasswordHash {
    /// As the PHC string format has it.
    Argon2(Arc<str>),
    Scrypt(Arc<str>),
    Bcrypt(Arc<str>),
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(***)")
    }
}

impl PasswordHash {
    /// Reads a hash; the error continues the sentence "the hash …".
    pub(crate) fn parse(text: &str) -> Result<PasswordHash, &'static str> {
        const COSTLY: &str = "takes more time or memory than Tidegate allows";
        if text.starts_with("$2") {
            let parts: bcrypt::HashParts =
                text.parse().map_err(|_| "is not a valid hash of bcrypt")?;
            return match parts.get_cost() <= BCRYPT_COST_MAX {
                true => Ok(PasswordHash::Bcrypt(text.into())),
                false => Err(COSTLY),
            };
        }
        if text.starts_with("$apr1$") || text.starts_with("{SHA}") || text.starts_with("$1$") {
            return Err("is of a kind that is broken: create it with htpasswd -B");
        }
        let hash = Phc::new(text).map_err(|_| "is not a valid hash of argon2, bcrypt or scrypt")?;
        if hash.salt.is_none() || hash.hash.is_none() {
            return Err("has no salt or no digest");
        }
        match hash.algorithm.as_str() {
            "argon2id" | "argon2i" | "argon2d" => {
                let params = argon2::Params::try_from(&hash).map_err(|_| "has wrong parameters")?;
                let costly = params.m_cost() > MEMORY_KIB_MAX || params.t_cost() > PASSES_MAX;
                if costly { Err(COSTLY) } else { Ok(PasswordHash::Argon2(text.into())) }
            }
            "scrypt" => {
                let params = scrypt::Params::try_from(&hash).map_err(|_| "has wrong parameters")?;
                let blocks = 1_u64.checked_shl(u32::from(params.log_n())).unwrap_or(u64::MAX);
                let bytes = blocks.saturating_mul(u64::from(params.r())).saturating_mul(128);
                let costly = bytes > u64::from(MEMORY_KIB_MAX) * 1024 || params.p() > PASSES_MAX;
                if costly { Err(COSTLY) } else { Ok(PasswordHash::Scrypt(text.into())) }
            }
            _ => Err("is not a valid hash of argon2, bcrypt or scrypt"),
        }
    }

    /// The part of the text that decides how long a verification takes: all but salt and digest.
    pub(crate) fn cost(&self) -> &str {
        let parts = match self {
            PasswordHash::Argon2(_) | PasswordHash::Scrypt(_) => 3,
            PasswordHash::Bcrypt(_) => 2,
        };
        self.expose().rsplitn(parts, '$').last().unwrap_or_default()
    }

    /// The text of the hash, which is a secret.
    pub(crate) fn expose(&self) -> &str {
        match self {
            PasswordHash::Argon2(text)
            | PasswordHash::Scrypt(text)
            | PasswordHash::Bcrypt(text) => text,
        }
    }

    /// Takes long, on purpose: not for the thread of a worker.
    pub(crate) fn verify(&self, password: &[u8]) -> bool {
        match self {
            PasswordHash::Argon2(text) => Phc::new(text)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
            PasswordHash::Scrypt(text) => Phc::new(text)
                .is_ok_and(|hash| Scrypt::default().verify_password(password, &hash).is_ok()),
            PasswordHash::Bcrypt(text) => bcrypt::verify(password, text).unwrap_or(false),
        }
    }
}

impl Setting for PasswordHash {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        Secret::schema(defs)
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let secret = Secret::read(node, reader)?;
        let text = String::from_utf8_lossy(secret.expose());
        match PasswordHash::parse(&text) {
            Ok(hash) => Some(hash),
            Err(why) => {
                reader
                    .error(node.span, format!("the hash of the password {why}"))
                    .help("create one with `htpasswd -nB NAME`, or with argon2 or scrypt");
                None
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use settings::{node, read};

    use super::PasswordHash;

    /// "sesame", by htpasswd.
    pub(crate) const BCRYPT: &str = "$2y$04$ry.yb/gg5EeymKWaWk.7Suz.8R9PwrFdpwcl/XW24EGFRt/XODclK";
    /// "sesame", by hashlib of Python.
    pub(crate) const SCRYPT: &str = "$scrypt$ln=4,r=1,p=1$c2FsdHNhbHRzYWx0c2FsdA\
                          $tFd3LAew0FY9mv4qxHQLln4pDiUXTsGxzY95RGlpoUE";
    /// "password": a vector of the reference implementation.
    const ARGON2: &str = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ\
                          $nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

    #[test]
    fn hashes_of_each_kind_verify_their_password() {
        for (text, password) in [(BCRYPT, "sesame"), (SCRYPT, "sesame"), (ARGON2, "password")] {
            let hash: PasswordHash = read(&node!(text)).unwrap();
            assert!(hash.verify(password.as_bytes()), "{text}");
            for wrong in [&b"Sesame"[..], b"", b"sesame ", b"password ", b"\xff"] {
                assert!(!hash.verify(wrong), "{text}");
            }
            assert_eq!(format!("{hash:?}"), "PasswordHash(***)");
        }
        let other = PasswordHash::parse(&BCRYPT.replace("$2y$", "$2b$")).unwrap();
        assert!(other.verify(b"sesame"));
    }

    #[test]
    fn other_and_costly_hashes_are_refused_and_not_shown() {
        for (text, why) in [
            ("sesame".to_owned(), "not a valid hash of argon2, bcrypt or scrypt"),
            ("$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00".to_owned(), "htpasswd -B"),
            ("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=".to_owned(), "htpasswd -B"),
            ("$2b$04$short".to_owned(), "not a valid hash of bcrypt"),
            (BCRYPT.replace("$04$", "$16$"), "more time or memory"),
            (ARGON2.replace("m=256,", "m=1000000,"), "more time or memory"),
            (ARGON2.replace("t=2,", "t=1000,"), "more time or memory"),
            (SCRYPT.replace("ln=4", "ln=30"), "more time or memory"),
            ("$argon2id$v=19$m=8,t=1,p=1".to_owned(), "no salt"),
            (
                "$pbkdf2-sha256$i=1000,l=32$c2FsdHNhbHQ$AAAA".to_owned(),
                "not a valid hash of argon2",
            ),
        ] {
            let report = read::<PasswordHash>(&node!(text.clone())).unwrap_err();
            assert!(report.contains(why), "{text}: {report}");
            assert!(!report.contains("W6ph5") && !report.contains("lZL6V"), "{report}");
        }
    }
}
