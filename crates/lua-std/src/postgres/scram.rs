//! SCRAM-SHA-256 (RFC 5802, RFC 7677), as the client, without channel binding.
//!
//! Promises that the password is not sent, that a server proves that it knows the password's hash,
//! and that a server cannot choose how long the proof takes beyond a limit. A password is used as
//! its bytes: SASLprep, which changes some texts outside of ASCII, is not applied.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use mlua::{Error, Lua, LuaString, Result};
use sha2::{Digest, Sha256};

use crate::limits::SCRAM_ITERATIONS;

type Hash = [u8; 32];

/// The client's first message without its header, which begins with random letters. The server has
/// the user name already.
pub(super) fn first() -> Result<String> {
    let mut nonce = [0; 18];
    getrandom::fill(&mut nonce).map_err(|error| Error::runtime(error.to_string()))?;
    Ok(format!("n=,r={}", BASE64.encode(nonce)))
}

/// What a server's first message asks for.
struct Challenge {
    nonce: String,
    salt: Vec<u8>,
    iterations: u32,
}

impl Challenge {
    /// Parses the message; `None` if it is malformed or not a response to `first`.
    fn parse(first: &str, message: &str) -> Option<Challenge> {
        let mut parts = message.split(',');
        let nonce = parts.next()?.strip_prefix("r=")?;
        let salt = BASE64.decode(parts.next()?.strip_prefix("s=")?).ok()?;
        let iterations = parts.next()?.strip_prefix("i=")?.parse().ok()?;
        let own = first.strip_prefix("n=,r=")?;
        let is_response = nonce.len() > own.len() && nonce.starts_with(own);
        let is_valid = is_response && !salt.is_empty() && iterations > 0;
        is_valid.then(|| Challenge { nonce: nonce.to_owned(), salt, iterations })
    }
}

type Texts = (Option<String>, String);

/// `scram_final(first, message, password)` → the client's last message and the server's signature
/// as it has to be; or nil, reason. Waits: the hash takes long by design.
pub(super) fn last(
    _: &Lua,
    (first, message, password): (String, LuaString, LuaString),
) -> Result<impl Future<Output = Result<Texts>> + 'static + use<>> {
    let challenge = Challenge::parse(&first, &message.to_string_lossy());
    let (message, password) = (message.to_string_lossy(), password.as_bytes().to_vec());
    Ok(async move {
        let refused = |reason: &str| Ok((None, format!("postgres: {reason}")));
        let Some(challenge) = challenge else {
            return refused("the server's SCRAM message is malformed");
        };
        if challenge.iterations > SCRAM_ITERATIONS {
            return refused("the server asks for too many iterations of SCRAM");
        }
        let proved = net::blocking(move || prove(&first, &message, &challenge, &password)).await;
        let (last, signature) = proved.map_err(|error| Error::runtime(error.to_string()))?;
        Ok((Some(last), format!("v={}", BASE64.encode(signature))))
    })
}

fn prove(first: &str, message: &str, challenge: &Challenge, password: &[u8]) -> (String, Hash) {
    let salted = salted(password, &challenge.salt, challenge.iterations);
    let client_key = mac(&salted, b"Client Key");
    let stored_key: Hash = Sha256::digest(client_key).into();
    // The header of the first message, in base64: no channel binding.
    let unproven = format!("c=biws,r={}", challenge.nonce);
    let all = format!("{first},{message},{unproven}");
    let mut proof = mac(&stored_key, all.as_bytes());
    for (byte, key) in proof.iter_mut().zip(client_key) {
        *byte ^= key;
    }
    let signature = mac(&mac(&salted, b"Server Key"), all.as_bytes());
    (format!("{unproven},p={}", BASE64.encode(proof)), signature)
}

/// PBKDF2 with one block.
fn salted(password: &[u8], salt: &[u8], iterations: u32) -> Hash {
    let mut last = mac(password, &[salt, &[0, 0, 0, 1]].concat());
    let mut all = last;
    for _ in 1..iterations {
        last = mac(password, &last);
        for (byte, other) in all.iter_mut().zip(last) {
            *byte ^= other;
        }
    }
    all
}

fn mac(key: &[u8], data: &[u8]) -> Hash {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac.chain_update(data).finalize().into_bytes().into(),
        // A key may have any length.
        Err(_) => Hash::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    #[test]
    fn the_exchange_of_rfc_7677() {
        let first = "n=user,r=rOprNGfwEbeRWgbNEkqO";
        let message = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                       s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let challenge = Challenge::parse(&first.replace("n=user", "n="), message).unwrap();
        let (last, signature) = prove(first, message, &challenge, b"pencil");
        let proof = "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert!(last.ends_with(proof), "{last}");
        assert_eq!(BASE64.encode(signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn malformed_challenges_are_rejected() {
        let parse = |message| Challenge::parse("n=,r=abc", message).is_some();
        assert!(parse("r=abcd,s=c2FsdA==,i=4096"));
        for wrong in [
            "",
            "r=abc,s=c2FsdA==,i=4096",
            "r=xbcd,s=c2FsdA==,i=4096",
            "r=abcd,s=,i=4096",
            "r=abcd,s=!,i=4096",
            "r=abcd,s=c2FsdA==,i=0",
            "r=abcd,s=c2FsdA==,i=-1",
            "r=abcd,s=c2FsdA==,i=99999999999",
            "r=abcd,s=c2FsdA==",
            "e=other-error",
        ] {
            assert!(!parse(wrong), "{wrong}");
        }
        let nonces = (first().unwrap(), first().unwrap());
        assert!(nonces.0 != nonces.1 && nonces.0.len() == 29, "{nonces:?}");
    }
}
