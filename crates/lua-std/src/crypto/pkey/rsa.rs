//! RSA: signatures of PKCS #1 v1.5, encryption with that padding or OAEP (RFC 8017).

use super::{KeyResult, Padding};
use getrandom::SysRng;
use rsa::traits::PaddingScheme;
use rsa::{Oaep, Pkcs1v15Encrypt, Pkcs1v15Sign, RsaPrivateKey, RsaPublicKey};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

pub(crate) struct Key {
    private: Option<RsaPrivateKey>,
    public: RsaPublicKey,
}

impl From<RsaPrivateKey> for Key {
    fn from(key: RsaPrivateKey) -> Self {
        Self { public: key.to_public_key(), private: Some(key) }
    }
}

impl From<RsaPublicKey> for Key {
    fn from(public: RsaPublicKey) -> Self {
        Self { private: None, public }
    }
}

/// The hashes of RSA signatures.
pub(super) const HASHES: [&str; 5] = ["sha1", "sha224", "sha256", "sha384", "sha512"];

fn signing(hash: &str) -> KeyResult<Pkcs1v15Sign> {
    let plain: String = hash.chars().filter(|c| *c != '-').collect();
    Ok(match plain.to_ascii_lowercase().as_str() {
        "sha1" => Pkcs1v15Sign::new::<Sha1>(),
        "sha224" => Pkcs1v15Sign::new::<Sha224>(),
        "sha256" => Pkcs1v15Sign::new::<Sha256>(),
        "sha384" => Pkcs1v15Sign::new::<Sha384>(),
        "sha512" => Pkcs1v15Sign::new::<Sha512>(),
        _ => return Err(format!("RSA does not sign with {hash}")),
    })
}

impl Key {
    fn private(&self) -> KeyResult<&RsaPrivateKey> {
        self.private.as_ref().ok_or_else(|| "the key is public".to_owned())
    }

    pub(super) fn sign(&self, digest: &[u8], hash: &str) -> KeyResult<Vec<u8>> {
        self.private()?.sign(signing(hash)?, digest).map_err(|error| error.to_string())
    }

    pub(super) fn verify(&self, digest: &[u8], signature: &[u8], hash: &str) -> KeyResult<bool> {
        Ok(self.public.verify(signing(hash)?, digest, signature).is_ok())
    }

    pub(super) fn encrypt(&self, data: &[u8], padding: &Padding) -> KeyResult<Vec<u8>> {
        let (key, rng) = (&self.public, &mut SysRng);
        match padding {
            Padding::Pkcs1 => Pkcs1v15Encrypt.encrypt(rng, key, data),
            Padding::Oaep("sha224") => Oaep::<Sha224>::new().encrypt(rng, key, data),
            Padding::Oaep("sha256") => Oaep::<Sha256>::new().encrypt(rng, key, data),
            Padding::Oaep("sha384") => Oaep::<Sha384>::new().encrypt(rng, key, data),
            Padding::Oaep("sha512") => Oaep::<Sha512>::new().encrypt(rng, key, data),
            Padding::Oaep(_) => Oaep::<Sha1>::new().encrypt(rng, key, data),
        }
        .map_err(|error| error.to_string())
    }

    pub(super) fn decrypt(&self, data: &[u8], padding: &Padding) -> KeyResult<Vec<u8>> {
        let (key, rng) = (self.private()?, Some(&mut SysRng));
        match padding {
            Padding::Pkcs1 => Pkcs1v15Encrypt.decrypt(rng, key, data),
            Padding::Oaep("sha224") => Oaep::<Sha224>::new().decrypt(rng, key, data),
            Padding::Oaep("sha256") => Oaep::<Sha256>::new().decrypt(rng, key, data),
            Padding::Oaep("sha384") => Oaep::<Sha384>::new().decrypt(rng, key, data),
            Padding::Oaep("sha512") => Oaep::<Sha512>::new().decrypt(rng, key, data),
            Padding::Oaep(_) => Oaep::<Sha1>::new().decrypt(rng, key, data),
        }
        // The reason is not reported: it would help only an attacker.
        .map_err(|_| "decryption failed".to_owned())
    }
}
