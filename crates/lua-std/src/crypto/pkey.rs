//! `crypto.pkey`: RSA and elliptic-curve keys out of PEM; signatures, and encryption with RSA.
//!
//! Promises that a key does only what its kind can, and that any failure of the data is `nil,
//! reason`. An RSA signature blocks the worker for milliseconds.

mod curve;
mod pem;
mod rsa;

use super::hash;
use curve::Curve;
use lua_vm::arguments::{add_methods, function};
use mlua::{Error, Lua, LuaString, Result, Table, UserData, UserDataMethods};

/// Constants of OpenSSL.
const RSA_PKCS1: i64 = 1;
const RSA_PKCS1_OAEP: i64 = 4;
const UNSUPPORTED_PADDINGS: [(&str, i64); 4] =
    [("RSA_NO", 3), ("RSA_X931", 5), ("RSA_PKCS1_PSS", 6), ("RSA_PKCS1_WITH_TLS", 7)];

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let new = |_: &Lua, (text, password): (LuaString, Option<LuaString>)| {
        let password = password.map(|password| password.as_bytes().to_vec());
        Ok(match pem::key(&text.as_bytes(), password.as_deref()) {
            Ok(key) => (Some(key), None),
            Err(reason) => (None, Some(reason)),
        })
    };
    table.set("new", function(lua, "new", new)?)?;
    table.set("RSA_PKCS1", RSA_PKCS1)?;
    table.set("RSA_PKCS1_OAEP", RSA_PKCS1_OAEP)?;
    for (name, number) in UNSUPPORTED_PADDINGS {
        table.set(name, number)?;
    }
    add_methods(lua, &table, &["sign", "verify", "encrypt", "decrypt"])?;
    Ok(table)
}

type KeyResult<T> = std::result::Result<T, String>;

pub(crate) enum Key {
    Rsa(Box<rsa::Key>),
    Curve(Box<dyn Curve>),
}

impl Key {
    /// The signatures of JSON Web Algorithms that this key can make or check (RFC 7518 section
    /// 3.1): an elliptic curve has one hash only.
    pub(crate) fn web_algorithms(&self) -> &'static [&'static str] {
        match self {
            Self::Rsa(_) => &["RS256", "RS384", "RS512"],
            Self::Curve(curve) => curve.web_algorithm(),
        }
    }

    /// Signs in the form of JSON Web Signatures: for a curve, two concatenated numbers.
    pub(crate) fn web_sign(&self, data: &[u8], hash: &str) -> KeyResult<Vec<u8>> {
        self.sign_as(data, hash, false)
    }

    pub(crate) fn web_verify(&self, data: &[u8], signature: &[u8], hash: &str) -> bool {
        self.verify_as(data, signature, hash, false).unwrap_or(false)
    }

    fn sign_as(&self, data: &[u8], hash: &str, der: bool) -> KeyResult<Vec<u8>> {
        let digest = digest(hash, data)?;
        match self {
            Self::Rsa(key) => key.sign(&digest, hash),
            Self::Curve(curve) => curve.sign(&digest, der),
        }
    }

    fn verify_as(&self, data: &[u8], signature: &[u8], hash: &str, der: bool) -> KeyResult<bool> {
        let digest = digest(hash, data)?;
        match self {
            Self::Rsa(key) => key.verify(&digest, signature, hash),
            Self::Curve(curve) => Ok(curve.verify(&digest, signature, der)),
        }
    }

    fn rsa(&self) -> KeyResult<&rsa::Key> {
        match self {
            Self::Rsa(key) => Ok(key),
            Self::Curve(_) => Err("only RSA keys encrypt".to_owned()),
        }
    }
}

fn digest(hash: &str, data: &[u8]) -> KeyResult<Box<[u8]>> {
    let found = hash::find("sign", 2, hash).map_err(|_| format!("unknown hash '{hash}'"))?;
    let mut state = (found.new)();
    state.update(data);
    Ok(state.finalize())
}

impl UserData for Key {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("sign", |lua, key, (data, name): (LuaString, String)| {
            hash::find("sign", 2, &name)?;
            answer(lua, key.sign_as(&data.as_bytes(), &name, true))
        });
        type Verify = (LuaString, LuaString, String);
        methods.add_method("verify", |_, key, (data, signature, name): Verify| {
            hash::find("verify", 3, &name)?;
            Ok(match key.verify_as(&data.as_bytes(), &signature.as_bytes(), &name, true) {
                Ok(valid) => (Some(valid), None),
                Err(reason) => (None, Some(reason)),
            })
        });
        type Encrypt = (LuaString, Option<i64>, Option<String>);
        methods.add_method("encrypt", |lua, key, (data, padding, hash): Encrypt| {
            let padding = Padding::new("encrypt", padding, hash)?;
            let data = data.as_bytes();
            answer(lua, padding.and_then(|padding| key.rsa()?.encrypt(&data, &padding)))
        });
        methods.add_method("decrypt", |lua, key, (data, padding, hash): Encrypt| {
            let padding = Padding::new("decrypt", padding, hash)?;
            let data = data.as_bytes();
            answer(lua, padding.and_then(|padding| key.rsa()?.decrypt(&data, &padding)))
        });
    }
}

/// The padding of a message.
enum Padding {
    Pkcs1,
    /// With this hash, by its plain name.
    Oaep(&'static str),
}

impl Padding {
    /// The outer error is that of an invalid argument.
    fn new(name: &str, padding: Option<i64>, hash: Option<String>) -> Result<KeyResult<Self>> {
        match padding {
            None | Some(RSA_PKCS1) => Ok(Ok(Self::Pkcs1)),
            Some(RSA_PKCS1_OAEP) => {
                let hash = hash.unwrap_or_else(|| "sha1".to_owned());
                let found = rsa::HASHES.iter().find(|known| **known == hash.to_ascii_lowercase());
                found.map(|hash| Ok(Self::Oaep(hash))).ok_or_else(|| {
                    Error::runtime(format!(
                        "bad argument #3 to '{name}' (the hash cannot be used: '{hash}')"
                    ))
                })
            }
            Some(other) => Ok(Err(format!("padding {other} is not supported"))),
        }
    }
}

type SignResult = (Option<LuaString>, Option<String>);

fn answer(lua: &Lua, outcome: KeyResult<Vec<u8>>) -> Result<SignResult> {
    Ok(match outcome {
        Ok(bytes) => (Some(lua.create_string(bytes)?), None),
        Err(reason) => (None, Some(reason)),
    })
}
