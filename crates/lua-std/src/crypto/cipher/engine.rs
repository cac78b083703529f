//! The ciphers in three forms: block by block, byte by byte, message by message.

use aead::{AeadInOut, Nonce};
use aes::cipher::consts::{U12, U16};
use aes::cipher::{
    Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, KeyInit,
    KeyIvInit, StreamCipher,
};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::AesGcm;
use camellia::{Camellia128, Camellia192, Camellia256};
use chacha20poly1305::ChaCha20Poly1305;
use ctr::Ctr128BE;
use des::TdesEde3;
use ofb::Ofb;
use sm4::Sm4;

pub(super) const TAG_BYTES: usize = 16;
pub(super) type Tag = [u8; TAG_BYTES];

pub(super) enum Engine {
    /// A cipher in a mode that takes whole blocks of this many bytes.
    Blocks(usize, Transform),
    /// A cipher that works byte by byte.
    Stream(Transform),
    Sealed(Box<dyn Sealed>),
}

/// Encrypts or decrypts the next bytes in place.
pub(super) type Transform = Box<dyn FnMut(&mut [u8])>;

pub(super) struct Algorithm {
    pub(super) name: &'static str,
    pub(super) key_bytes: usize,
    pub(super) iv_bytes: usize,
    /// `None` for a key or iv of another length.
    pub(super) make: fn(bool, &[u8], &[u8]) -> Option<Engine>,
}

const fn row(
    name: &'static str,
    key_bytes: usize,
    iv_bytes: usize,
    make: fn(bool, &[u8], &[u8]) -> Option<Engine>,
) -> Algorithm {
    Algorithm { name, key_bytes, iv_bytes, make }
}

pub(super) const ALGORITHMS: &[Algorithm] = &[
    row("aes-128-cbc", 16, 16, chained::<Aes128>),
    row("aes-192-cbc", 24, 16, chained::<Aes192>),
    row("aes-256-cbc", 32, 16, chained::<Aes256>),
    row("aes-128-cfb", 16, 16, fed_back::<Aes128>),
    row("aes-192-cfb", 24, 16, fed_back::<Aes192>),
    row("aes-256-cfb", 32, 16, fed_back::<Aes256>),
    row("aes-128-ctr", 16, 16, key_stream::<Ctr128BE<Aes128>>),
    row("aes-192-ctr", 24, 16, key_stream::<Ctr128BE<Aes192>>),
    row("aes-256-ctr", 32, 16, key_stream::<Ctr128BE<Aes256>>),
    row("aes-128-ecb", 16, 0, single::<Aes128>),
    row("aes-192-ecb", 24, 0, single::<Aes192>),
    row("aes-256-ecb", 32, 0, single::<Aes256>),
    row("aes-128-ofb", 16, 16, key_stream::<Ofb<Aes128>>),
    row("aes-192-ofb", 24, 16, key_stream::<Ofb<Aes192>>),
    row("aes-256-ofb", 32, 16, key_stream::<Ofb<Aes256>>),
    row("aes-128-gcm", 16, 12, sealed::<AesGcm<Aes128, U12>>),
    row("aes-192-gcm", 24, 12, sealed::<AesGcm<Aes192, U12>>),
    row("aes-256-gcm", 32, 12, sealed::<AesGcm<Aes256, U12>>),
    row("camellia-128-cbc", 16, 16, chained::<Camellia128>),
    row("camellia-128-cfb", 16, 16, fed_back::<Camellia128>),
    row("camellia-128-ctr", 16, 16, key_stream::<Ctr128BE<Camellia128>>),
    row("camellia-128-ecb", 16, 0, single::<Camellia128>),
    row("camellia-128-ofb", 16, 16, key_stream::<Ofb<Camellia128>>),
    row("camellia-192-cbc", 24, 16, chained::<Camellia192>),
    row("camellia-192-cfb", 24, 16, fed_back::<Camellia192>),
    row("camellia-192-ctr", 24, 16, key_stream::<Ctr128BE<Camellia192>>),
    row("camellia-192-ecb", 24, 0, single::<Camellia192>),
    row("camellia-192-ofb", 24, 16, key_stream::<Ofb<Camellia192>>),
    row("camellia-256-cbc", 32, 16, chained::<Camellia256>),
    row("camellia-256-cfb", 32, 16, fed_back::<Camellia256>),
    row("camellia-256-ctr", 32, 16, key_stream::<Ctr128BE<Camellia256>>),
    row("camellia-256-ecb", 32, 0, single::<Camellia256>),
    row("camellia-256-ofb", 32, 16, key_stream::<Ofb<Camellia256>>),
    row("chacha20-poly1305", 32, 12, sealed::<ChaCha20Poly1305>),
    row("des-ede3", 24, 0, single::<TdesEde3>),
    row("des-ede3-cbc", 24, 8, chained::<TdesEde3>),
    row("des-ede3-cfb", 24, 8, fed_back::<TdesEde3>),
    row("des-ede3-ecb", 24, 0, single::<TdesEde3>),
    row("des-ede3-ofb", 24, 8, key_stream::<Ofb<TdesEde3>>),
    row("sm4-cbc", 16, 16, chained::<Sm4>),
    row("sm4-cfb", 16, 16, fed_back::<Sm4>),
    row("sm4-ctr", 16, 16, key_stream::<Ctr128BE<Sm4>>),
    row("sm4-ecb", 16, 0, single::<Sm4>),
    row("sm4-ofb", 16, 16, key_stream::<Ofb<Sm4>>),
];

/// A block cipher.
trait BlockCipher: BlockCipherEncrypt + BlockCipherDecrypt + KeyInit + 'static {}

impl<C: BlockCipherEncrypt + BlockCipherDecrypt + KeyInit + 'static> BlockCipher for C {}

fn chained<C: BlockCipher>(encrypt: bool, key: &[u8], iv: &[u8]) -> Option<Engine> {
    Some(if encrypt {
        encrypting(cbc::Encryptor::<C>::new_from_slices(key, iv).ok()?)
    } else {
        decrypting(cbc::Decryptor::<C>::new_from_slices(key, iv).ok()?)
    })
}

fn single<C: BlockCipher>(encrypt: bool, key: &[u8], _: &[u8]) -> Option<Engine> {
    Some(if encrypt {
        encrypting(ecb::Encryptor::<C>::new_from_slice(key).ok()?)
    } else {
        decrypting(ecb::Decryptor::<C>::new_from_slice(key).ok()?)
    })
}

fn encrypting<M: BlockModeEncrypt + 'static>(mut mode: M) -> Engine {
    let transform = move |data: &mut [u8]| {
        mode.encrypt_blocks(Array::slice_as_chunks_mut(data).0);
    };
    Engine::Blocks(M::block_size(), Box::new(transform))
}

fn decrypting<M: BlockModeDecrypt + 'static>(mut mode: M) -> Engine {
    let transform = move |data: &mut [u8]| {
        mode.decrypt_blocks(Array::slice_as_chunks_mut(data).0);
    };
    Engine::Blocks(M::block_size(), Box::new(transform))
}

fn fed_back<C: BlockCipher>(encrypt: bool, key: &[u8], iv: &[u8]) -> Option<Engine> {
    Some(Engine::Stream(if encrypt {
        let mut mode = cfb_mode::BufEncryptor::<C>::new_from_slices(key, iv).ok()?;
        Box::new(move |data| mode.encrypt(data))
    } else {
        let mut mode = cfb_mode::BufDecryptor::<C>::new_from_slices(key, iv).ok()?;
        Box::new(move |data| mode.decrypt(data))
    }))
}

/// A cipher that is the same both ways.
fn key_stream<S>(_: bool, key: &[u8], iv: &[u8]) -> Option<Engine>
where
    S: StreamCipher + KeyIvInit + 'static,
{
    let mut cipher = S::new_from_slices(key, iv).ok()?;
    Some(Engine::Stream(Box::new(move |data| cipher.apply_keystream(data))))
}

/// A cipher that authenticates whole messages (RFC 5116).
pub(super) trait Sealed {
    /// `None` for a message that is too long.
    fn seal(&self, aad: &[u8], message: &mut [u8]) -> Option<Tag>;
    fn open(&self, aad: &[u8], message: &mut [u8], tag: &Tag) -> bool;
}

struct Keyed<A: AeadInOut> {
    cipher: A,
    nonce: Nonce<A>,
}

impl<A: AeadInOut<TagSize = U16>> Sealed for Keyed<A> {
    fn seal(&self, aad: &[u8], message: &mut [u8]) -> Option<Tag> {
        let tag = self.cipher.encrypt_inout_detached(&self.nonce, aad, message.into()).ok()?;
        Some(tag.into())
    }

    fn open(&self, aad: &[u8], message: &mut [u8], tag: &Tag) -> bool {
        let tag = (*tag).into();
        self.cipher.decrypt_inout_detached(&self.nonce, aad, message.into(), &tag).is_ok()
    }
}

fn sealed<A>(_: bool, key: &[u8], iv: &[u8]) -> Option<Engine>
where
    A: AeadInOut<TagSize = U16> + KeyInit + 'static,
{
    let cipher = A::new_from_slice(key).ok()?;
    let nonce = Nonce::<A>::try_from(iv).ok()?;
    Some(Engine::Sealed(Box::new(Keyed { cipher, nonce })))
}
