//! `crypto.hash`: digests of whole strings and of streams, as raw bytes.

use blake2::{Blake2b512, Blake2s256};
use digest::{Digest, DynDigest, block_api::BlockSizeUser};
use hmac::{KeyInit, Mac, SimpleHmac};
use lua_vm::arguments::{add_methods, function};
use md5::Md5;
use mlua::{Error, Lua, LuaString, Result, Table, UserData, UserDataMethods};
use ripemd::Ripemd160;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use sm3::Sm3;

/// A hash function by name, and the message authentication made of it.
pub(super) struct Algorithm {
    /// In lower case and without dashes.
    name: &'static str,
    pub(super) new: fn() -> Box<dyn DynDigest>,
    pub(super) mac: fn(&[u8], &[u8]) -> Option<Vec<u8>>,
}

const fn algorithm<D>(name: &'static str) -> Algorithm
where
    D: Digest + DynDigest + BlockSizeUser + Default + 'static,
{
    Algorithm { name, new: || Box::new(D::default()), mac: mac::<D> }
}

/// Never `None`: keys may have any length.
fn mac<D: Digest + BlockSizeUser>(key: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let mac = SimpleHmac::<D>::new_from_slice(key).ok()?;
    Some(mac.chain_update(data).finalize().into_bytes().to_vec())
}

const ALGORITHMS: &[Algorithm] = &[
    algorithm::<Md5>("md5"),
    algorithm::<Ripemd160>("ripemd160"),
    algorithm::<Sha1>("sha1"),
    algorithm::<Sha224>("sha224"),
    algorithm::<Sha256>("sha256"),
    algorithm::<Sha384>("sha384"),
    algorithm::<Sha512>("sha512"),
    algorithm::<Sha512_224>("sha512224"),
    algorithm::<Sha512_256>("sha512256"),
    algorithm::<Sha3_224>("sha3224"),
    algorithm::<Sha3_256>("sha3256"),
    algorithm::<Sha3_384>("sha3384"),
    algorithm::<Sha3_512>("sha3512"),
    algorithm::<Blake2b512>("blake2b512"),
    algorithm::<Blake2s256>("blake2s256"),
    algorithm::<Sm3>("sm3"),
];

/// Finds an algorithm by name in any case, with or without dashes; an unknown one is an error of
/// the argument at `position`.
pub(super) fn find(function: &str, position: usize, name: &str) -> Result<&'static Algorithm> {
    let plain: String =
        name.chars().filter(|c| *c != '-' && *c != '_').map(|c| c.to_ascii_lowercase()).collect();
    ALGORITHMS.iter().find(|algorithm| algorithm.name == plain).ok_or_else(|| {
        Error::runtime(format!(
            "bad argument #{position} to '{function}' (unknown hash algorithm '{name}')"
        ))
    })
}

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let new = |_: &Lua, name: String| Ok(Hash { state: (find("new", 1, &name)?.new)() });
    table.set("new", function(lua, "new", new)?)?;
    let hash = |lua: &Lua, (name, data): (String, LuaString)| {
        let mut state = (find("hash", 1, &name)?.new)();
        state.update(&data.as_bytes());
        lua.create_string(state.finalize())
    };
    table.set("hash", function(lua, "hash", hash)?)?;
    add_methods(lua, &table, &["update", "final", "digest", "reset"])?;
    Ok(table)
}

struct Hash {
    state: Box<dyn DynDigest>,
}

impl UserData for Hash {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("update", |_, this, data: LuaString| {
            this.state.update(&data.as_bytes());
            Ok(())
        });
        methods.add_method_mut("final", |lua, this, ()| {
            lua.create_string(this.state.finalize_reset())
        });
        methods.add_method_mut("digest", |lua, this, data: LuaString| {
            this.state.reset();
            this.state.update(&data.as_bytes());
            lua.create_string(this.state.finalize_reset())
        });
        methods.add_method_mut("reset", |_, this, ()| {
            this.state.reset();
            Ok(())
        });
    }
}
