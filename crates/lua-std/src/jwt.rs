//! `security.jwt`: signed JSON Web Tokens (RFC 7519), HS, RS and ES with 256, 384 and 512 bits.
//!
//! Promises that the token never chooses how it is checked: the key and the caller define the
//! allowed algorithms (RFC 8725 section 3.1). `exp` and `nbf` are checked. Decoding an invalid
//! token returns `nil, reason` and never raises. Own code because the crate `jsonwebtoken` has no
//! ES512 and reads claims with serde, not as Lua values.

use super::base64::{decode_url_safe, encode_url_safe};
use super::crypto::{hash_mac, pkey};
use crate::limits;
use lua_vm::arguments::function;
use mlua::{AnyUserData, Error, Function, Lua, LuaString, Result, Table, Value};
use std::time::{SystemTime, UNIX_EPOCH};
use subtle::ConstantTimeEq;

const SECRET_ALGORITHMS: &[&str] = &["HS256", "HS384", "HS512"];
const ALGORITHMS: [&str; 10] =
    ["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "ES256K"];

type JwtResult<T> = std::result::Result<T, String>;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let require: Function = lua.globals().get("require")?;
    let json: Table = require.call("tide.encoding.json")?;
    let (to_json, from_json): (Function, Function) = (json.get("encode")?, json.get("decode")?);
    let table = lua.create_table()?;
    let encode = move |lua: &Lua, (payload, key, name): (Table, Value, Option<String>)| {
        let key = Key::new("encode", &key)?;
        let name = name.as_deref().unwrap_or("HS256");
        // The claims of an empty table are an object, which JSON alone cannot tell.
        let payload = if payload.is_empty() && payload.pairs::<Value, Value>().next().is_none() {
            lua.create_string("{}")?
        } else {
            let (payload, reason): (Option<LuaString>, Option<String>) = to_json.call(payload)?;
            let Some(payload) = payload else { return Ok((None, reason)) };
            payload
        };
        Ok(match encode(&payload.as_bytes(), &key, name) {
            Ok(token) => (Some(token), None),
            Err(reason) => (None, Some(reason)),
        })
    };
    table.set("encode", function(lua, "encode", encode)?)?;
    let decode = move |lua: &Lua, (token, key, options): (LuaString, Value, Option<Table>)| {
        let key = Key::new("decode", &key)?;
        let rules = Rules::new(options)?;
        Ok(match decode(lua, &token.as_bytes(), &key, &rules, &from_json)? {
            Ok(payload) => (Some(payload), None),
            Err(reason) => (None, Some(reason)),
        })
    };
    table.set("decode", function(lua, "decode", decode)?)?;
    Ok(table)
}

/// The key of a signature.
enum Key {
    Secret(LuaString),
    Pair(AnyUserData),
}

impl Key {
    fn new(name: &str, key: &Value) -> Result<Self> {
        match key {
            Value::String(secret) => Ok(Self::Secret(secret.clone())),
            Value::UserData(key) if key.is::<pkey::Key>() => Ok(Self::Pair(key.clone())),
            other => Err(Error::runtime(format!(
                "bad argument #2 to '{name}' (a string or a crypto.pkey expected, got {})",
                other.type_name()
            ))),
        }
    }

    /// The algorithms of a key of this kind.
    fn algorithms(&self) -> JwtResult<&'static [&'static str]> {
        match self {
            Self::Secret(_) => Ok(SECRET_ALGORITHMS),
            Self::Pair(key) => Ok(borrow(key)?.web_algorithms()),
        }
    }

    fn sign(&self, data: &[u8], name: &str) -> JwtResult<Vec<u8>> {
        let hash = hash_of(name);
        match self {
            Self::Secret(secret) => hash_mac(&secret.as_bytes(), data, &hash)
                .ok_or_else(|| "the key cannot be used".to_owned()),
            Self::Pair(key) => borrow(key)?.web_sign(data, &hash),
        }
    }

    fn verify(&self, data: &[u8], signature: &[u8], name: &str) -> bool {
        let hash = hash_of(name);
        match self {
            Self::Secret(secret) => hash_mac(&secret.as_bytes(), data, &hash)
                .is_some_and(|mac| bool::from(mac.as_slice().ct_eq(signature))),
            Self::Pair(key) => borrow(key).is_ok_and(|key| key.web_verify(data, signature, &hash)),
        }
    }
}

fn borrow(key: &AnyUserData) -> JwtResult<mlua::UserDataRef<pkey::Key>> {
    key.borrow::<pkey::Key>().map_err(|error| error.to_string())
}

/// The hash of an algorithm's name; that of secp256k1 ends with a letter (RFC 8812).
fn hash_of(name: &str) -> String {
    format!("sha{}", name.get(2..5).unwrap_or(""))
}

/// The caller's requirements of a token.
struct Rules {
    /// `None` allows all algorithms of the key.
    algorithms: Option<Vec<String>>,
    leeway_s: f64,
    now_s: f64,
}

impl Rules {
    fn new(options: Option<Table>) -> Result<Self> {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
        let mut rules = Self { algorithms: None, leeway_s: 0.0, now_s };
        let Some(options) = options else { return Ok(rules) };
        rules.algorithms = options.get("algorithms")?;
        rules.leeway_s = options.get::<Option<f64>>("leeway")?.unwrap_or(0.0);
        rules.now_s = options.get::<Option<f64>>("now")?.unwrap_or(now_s);
        Ok(rules)
    }

    fn allow(&self, name: &str) -> bool {
        self.algorithms.as_ref().is_none_or(|allowed| allowed.iter().any(|one| one == name))
    }
}

fn encode(payload: &[u8], key: &Key, name: &str) -> JwtResult<String> {
    if !ALGORITHMS.contains(&name) {
        return Err(format!("Unsupported algorithm: {name}"));
    }
    if !key.algorithms()?.contains(&name) {
        return Err(format!("the key is not for {name}"));
    }
    let header = format!(r#"{{"alg":"{name}","typ":"JWT"}}"#);
    let mut token = encode_url_safe(header.as_bytes());
    token.push('.');
    token.push_str(&encode_url_safe(payload));
    let signature = key.sign(token.as_bytes(), name)?;
    token.push('.');
    token.push_str(&encode_url_safe(&signature));
    Ok(token)
}

/// The outer error is one of the VM, such as no memory.
fn decode(
    lua: &Lua,
    token: &[u8],
    key: &Key,
    rules: &Rules,
    from_json: &Function,
) -> Result<JwtResult<Table>> {
    let parts = match parts(token) {
        Some(parts) => parts,
        None => return Ok(Err("Invalid token format".to_owned())),
    };
    let Some(header) = object(lua, parts.header, from_json)? else {
        return Ok(Err("Invalid header".to_owned()));
    };
    let name = match checked_header(&header, key, rules)? {
        Ok(name) => name,
        Err(reason) => return Ok(Err(reason)),
    };
    let Some(signature) = decode_url_safe(parts.signature) else {
        return Ok(Err("Invalid signature".to_owned()));
    };
    if !key.verify(parts.signed, &signature, &name) {
        return Ok(Err("Signature verification failed".to_owned()));
    }
    let Some(payload) = object(lua, parts.payload, from_json)? else {
        return Ok(Err("Invalid payload".to_owned()));
    };
    Ok(match in_time(&payload, rules)? {
        Ok(()) => Ok(payload),
        Err(reason) => Err(reason),
    })
}

struct Parts<'a> {
    header: &'a [u8],
    payload: &'a [u8],
    signature: &'a [u8],
    signed: &'a [u8],
}

fn parts(token: &[u8]) -> Option<Parts<'_>> {
    let mut dots = memchr::memchr_iter(b'.', token);
    let (first, second) = (dots.next()?, dots.next()?);
    if dots.next().is_some() || token.len() > limits::JWT_BYTES {
        return None;
    }
    Some(Parts {
        header: &token[..first],
        payload: &token[first + 1..second],
        signature: &token[second + 1..],
        signed: &token[..second],
    })
}

/// A part of a token as a table. `None` if it is not a JSON object.
fn object(lua: &Lua, part: &[u8], from_json: &Function) -> Result<Option<Table>> {
    let Some(text) = decode_url_safe(part) else { return Ok(None) };
    if !text.trim_ascii_start().starts_with(b"{") {
        return Ok(None);
    }
    from_json.call(lua.create_string(text)?)
}

/// The algorithm of the header, if both the key and the caller allow it.
fn checked_header(header: &Table, key: &Key, rules: &Rules) -> Result<JwtResult<String>> {
    // Critical extensions must not be ignored, and none is supported (RFC 7515 section 4.1.11).
    if header.contains_key("crit")? {
        return Ok(Err("Invalid header".to_owned()));
    }
    let name = match header.get::<Value>("alg")? {
        Value::String(name) => name.to_string_lossy(),
        _ => return Ok(Err("Invalid header".to_owned())),
    };
    let fits = match key.algorithms() {
        Ok(algorithms) => algorithms.contains(&name.as_str()) && rules.allow(&name),
        Err(reason) => return Ok(Err(reason)),
    };
    Ok(if fits { Ok(name) } else { Err(format!("Unsupported algorithm: {name}")) })
}

/// RFC 7519 sections 4.1.4 and 4.1.5.
fn in_time(payload: &Table, rules: &Rules) -> Result<JwtResult<()>> {
    let claim = |name: &str| -> Result<std::result::Result<Option<f64>, ()>> {
        Ok(match payload.get::<Value>(name)? {
            Value::Nil => Ok(None),
            Value::Integer(seconds) => Ok(Some(seconds as f64)),
            Value::Number(seconds) => Ok(Some(seconds)),
            _ => Err(()),
        })
    };
    let (Ok(exp), Ok(nbf)) = (claim("exp")?, claim("nbf")?) else {
        return Ok(Err("Invalid payload".to_owned()));
    };
    if exp.is_some_and(|exp| rules.now_s >= exp + rules.leeway_s) {
        return Ok(Err("Token expired".to_owned()));
    }
    if nbf.is_some_and(|nbf| rules.now_s < nbf - rules.leeway_s) {
        return Ok(Err("Token not valid yet".to_owned()));
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests;
