//! The ciphers, behind three traits: block by block, byte by byte, message by message.

use aead::{AeadInOut, Nonce};
use aes::cipher::consts::{U12, U16};
use aes::cipher::{
    Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt,
    BlockSizeUser, KeyInit, KeyIvInit, StreamCipher,
};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::AesGcm;
use chacha20poly1305::ChaCha20Poly1305;

pub(super) const BLOCK_BYTES: usize = 16;
pub(super) const TAG_BYTES: usize = 16;
pub(super) type Tag = [u8; TAG_BYTES];

pub(super) enum Engine {
    Blocks(Box<dyn Blocks>),
    Stream(Box<dyn Stream>),
    Sealed(Box<dyn Sealed>),
}

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
    row("aes-128-ctr", 16, 16, counted::<Aes128>),
    row("aes-192-ctr", 24, 16, counted::<Aes192>),
    row("aes-256-ctr", 32, 16, counted::<Aes256>),
    row("aes-128-ecb", 16, 0, single::<Aes128>),
    row("aes-192-ecb", 24, 0, single::<Aes192>),
    row("aes-256-ecb", 32, 0, single::<Aes256>),
    row("aes-128-gcm", 16, 12, sealed::<AesGcm<Aes128, U12>>),
    row("aes-192-gcm", 24, 12, sealed::<AesGcm<Aes192, U12>>),
    row("aes-256-gcm", 32, 12, sealed::<AesGcm<Aes256, U12>>),
    row("chacha20-poly1305", 32, 12, sealed::<ChaCha20Poly1305>),
];

/// A cipher in a mode that takes whole blocks.
pub(super) trait Blocks {
    fn apply(&mut self, data: &mut [u8]);
}

struct Encrypting<M>(M);
struct Decrypting<M>(M);

impl<M: BlockModeEncrypt + BlockSizeUser<BlockSize = U16>> Blocks for Encrypting<M> {
    fn apply(&mut self, data: &mut [u8]) {
        let (blocks, _) = Array::slice_as_chunks_mut(data);
        self.0.encrypt_blocks(blocks);
    }
}

impl<M: BlockModeDecrypt + BlockSizeUser<BlockSize = U16>> Blocks for Decrypting<M> {
    fn apply(&mut self, data: &mut [u8]) {
        let (blocks, _) = Array::slice_as_chunks_mut(data);
        self.0.decrypt_blocks(blocks);
    }
}

/// A block cipher with 16-byte blocks.
trait Block16:
    BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + KeyInit + 'static
{
}

impl Block16 for Aes128 {}
impl Block16 for Aes192 {}
impl Block16 for Aes256 {}

fn chained<C: Block16>(encrypt: bool, key: &[u8], iv: &[u8]) -> Option<Engine> {
    Some(Engine::Blocks(if encrypt {
        Box::new(Encrypting(cbc::Encryptor::<C>::new_from_slices(key, iv).ok()?))
    } else {
        Box::new(Decrypting(cbc::Decryptor::<C>::new_from_slices(key, iv).ok()?))
    }))
}

fn single<C: Block16>(encrypt: bool, key: &[u8], _: &[u8]) -> Option<Engine> {
    Some(Engine::Blocks(if encrypt {
        Box::new(Encrypting(ecb::Encryptor::<C>::new_from_slice(key).ok()?))
    } else {
        Box::new(Decrypting(ecb::Decryptor::<C>::new_from_slice(key).ok()?))
    }))
}

/// A cipher that works byte by byte, the same both ways.
pub(super) trait Stream {
    fn apply(&mut self, data: &mut [u8]);
}

impl<S: StreamCipher> Stream for S {
    fn apply(&mut self, data: &mut [u8]) {
        self.apply_keystream(data);
    }
}

fn counted<C: Block16>(_: bool, key: &[u8], iv: &[u8]) -> Option<Engine> {
    Some(Engine::Stream(Box::new(ctr::Ctr128BE::<C>::new_from_slices(key, iv).ok()?)))
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
