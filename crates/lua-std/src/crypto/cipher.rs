//! `crypto.cipher`: AES, Camellia, SM4, 3DES and ChaCha20-Poly1305, in streams.
//!
//! An authenticated cipher buffers its input until `final`: no byte of a message is returned before
//! its tag was verified, so its `update` returns nothing.

mod engine;

use crate::limits;
use engine::{ALGORITHMS, Algorithm, Engine, TAG_BYTES, Tag};
use lua_vm::arguments::{add_methods, function};
use mlua::{Error, IntoLua, Lua, LuaString, Result, Table, UserData, UserDataMethods, Value};

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    for (name, encrypt) in [("encryptor", true), ("decryptor", false)] {
        type Arguments = (String, LuaString, Option<LuaString>);
        let new = move |_: &Lua, (algorithm, key, iv): Arguments| {
            let plain = algorithm.to_ascii_lowercase();
            let found = ALGORITHMS.iter().find(|algorithm| algorithm.name == plain);
            let algorithm = found.ok_or_else(|| {
                Error::runtime(format!(
                    "bad argument #1 to '{name}' (unknown cipher '{algorithm}')"
                ))
            })?;
            Cipher::new(algorithm, encrypt, name, 2, &key, iv.as_ref())
        };
        table.set(name, function(lua, name, new)?)?;
    }
    let methods = ["update", "final", "setpadding", "setaad", "settag", "tag", "reset"];
    add_methods(lua, &table, &methods)?;
    Ok(table)
}

struct Cipher {
    algorithm: &'static Algorithm,
    encrypt: bool,
    engine: Engine,
    padding: bool,
    /// The incomplete block; with an authenticated cipher, all input.
    pending: Vec<u8>,
    aad: Vec<u8>,
    tag: Option<Tag>,
    finished: bool,
}

/// The result of `final`.
type FinalResult = std::result::Result<Vec<u8>, &'static str>;

impl Cipher {
    fn new(
        algorithm: &'static Algorithm,
        encrypt: bool,
        name: &str,
        position: usize,
        key: &LuaString,
        iv: Option<&LuaString>,
    ) -> Result<Self> {
        let (key, iv) = (key.as_bytes(), iv.map(|iv| iv.as_bytes()));
        let iv = iv.as_deref().unwrap_or_default();
        let wrong = |position: usize, what: &str, needed: usize, got: usize| {
            Error::runtime(format!(
                "bad argument #{position} to '{name}' ({} needs {what} of {needed} bytes, \
                 got {got})",
                algorithm.name
            ))
        };
        if key.len() != algorithm.key_bytes {
            return Err(wrong(position, "a key", algorithm.key_bytes, key.len()));
        }
        if iv.len() != algorithm.iv_bytes {
            return Err(wrong(position + 1, "an iv", algorithm.iv_bytes, iv.len()));
        }
        let engine = (algorithm.make)(encrypt, &key, iv)
            .ok_or_else(|| wrong(position, "a key", algorithm.key_bytes, key.len()))?;
        Ok(Self {
            algorithm,
            encrypt,
            engine,
            padding: true,
            pending: Vec::new(),
            aad: Vec::new(),
            tag: None,
            finished: false,
        })
    }

    fn update(&mut self, data: &[u8]) -> Result<Vec<u8>> {
        if self.finished {
            return Err(Error::runtime("'update' after 'final': 'reset' first"));
        }
        match &mut self.engine {
            Engine::Stream(stream) => {
                let mut out = data.to_vec();
                stream(&mut out);
                Ok(out)
            }
            Engine::Blocks(size, blocks) => {
                self.pending.extend_from_slice(data);
                // The last block may be padding, which only `final` can tell.
                let held = usize::from(!self.encrypt && self.padding);
                let whole = self.pending.len().saturating_sub(held) / *size * *size;
                let rest = self.pending.split_off(whole);
                let mut out = std::mem::replace(&mut self.pending, rest);
                blocks(&mut out);
                Ok(out)
            }
            Engine::Sealed(_) => {
                if self.pending.len() + data.len() > limits::SEALED_BYTES {
                    return Err(Error::runtime("the message is longer than 64 MiB"));
                }
                self.pending.extend_from_slice(data);
                Ok(Vec::new())
            }
        }
    }

    fn finish(&mut self) -> Result<FinalResult> {
        self.finished = true;
        let mut rest = std::mem::take(&mut self.pending);
        match &mut self.engine {
            Engine::Stream(_) => Ok(Ok(rest)),
            Engine::Blocks(size, blocks) if self.encrypt => {
                if self.padding {
                    let missing = *size - rest.len();
                    rest.resize(*size, missing as u8);
                    blocks(&mut rest);
                } else if !rest.is_empty() {
                    return Ok(Err("the data ends within a block, and padding is off"));
                }
                Ok(Ok(rest))
            }
            Engine::Blocks(size, blocks) => {
                if rest.len() != if self.padding { *size } else { 0 } {
                    return Ok(Err("the data ends within a block"));
                }
                blocks(&mut rest);
                if self.padding {
                    let Some(length) = unpadded(&rest) else { return Ok(Err("bad padding")) };
                    rest.truncate(length);
                }
                Ok(Ok(rest))
            }
            Engine::Sealed(sealed) if self.encrypt => match sealed.seal(&self.aad, &mut rest) {
                Some(tag) => {
                    self.tag = Some(tag);
                    Ok(Ok(rest))
                }
                None => Ok(Err("the message is too long")),
            },
            Engine::Sealed(sealed) => {
                let tag = self.tag.ok_or_else(|| Error::runtime("'final' before 'settag'"))?;
                let open = sealed.open(&self.aad, &mut rest, &tag);
                Ok(if open { Ok(rest) } else { Err("the tag does not match the message") })
            }
        }
    }

    fn sealed(&self, name: &str) -> Result<()> {
        match self.engine {
            Engine::Sealed(_) => Ok(()),
            _ => Err(Error::runtime(format!("'{name}': {} has no tag", self.algorithm.name))),
        }
    }
}

/// How much of the last block is data (PKCS #7). Reads every byte in any case.
fn unpadded(block: &[u8]) -> Option<usize> {
    let count = usize::from(*block.last()?);
    let mut wrong = u8::from(count == 0 || count > block.len());
    for (at, byte) in block.iter().rev().enumerate() {
        wrong |= u8::from(at < count) & u8::from(usize::from(*byte) != count);
    }
    (wrong == 0).then(|| block.len() - count)
}

impl UserData for Cipher {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("update", |lua, this, data: LuaString| {
            lua.create_string(this.update(&data.as_bytes())?)
        });
        methods.add_method_mut("final", |lua, this, data: Option<LuaString>| {
            let mut out = match data {
                Some(data) => this.update(&data.as_bytes())?,
                None => this.update(&[])?,
            };
            match this.finish()? {
                Ok(last) => {
                    out.extend_from_slice(&last);
                    Ok((Some(lua.create_string(out)?), None))
                }
                Err(reason) => Ok((None, Some(reason))),
            }
        });
        methods.add_method_mut("setpadding", |_, this, padding: Value| {
            this.padding = !matches!(padding, Value::Integer(0) | Value::Boolean(false));
            Ok(())
        });
        methods.add_method_mut("setaad", |_, this, aad: LuaString| {
            this.sealed("setaad")?;
            this.aad.extend_from_slice(&aad.as_bytes());
            Ok(())
        });
        methods.add_method_mut("settag", |_, this, tag: LuaString| {
            this.sealed("settag")?;
            let tag = Tag::try_from(tag.as_bytes().as_ref()).map_err(|_| {
                Error::runtime(format!("bad argument #1 to 'settag' ({TAG_BYTES} bytes expected)"))
            })?;
            this.tag = Some(tag);
            Ok(())
        });
        methods.add_method("tag", |lua, this, ()| {
            this.sealed("tag")?;
            let tag = this.tag.filter(|_| this.finished && this.encrypt);
            let tag = tag.ok_or_else(|| Error::runtime("'tag' before 'final' of an encryptor"))?;
            lua.create_string(tag)?.into_lua(lua)
        });
        methods.add_method_mut("reset", |_, this, (key, iv): (LuaString, Option<LuaString>)| {
            let padding = this.padding;
            *this = Self::new(this.algorithm, this.encrypt, "reset", 1, &key, iv.as_ref())?;
            this.padding = padding;
            Ok(())
        });
    }
}
