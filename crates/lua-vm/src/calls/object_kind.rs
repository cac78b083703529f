//! The kinds of objects that a call has, and their metatables.

use std::cell::Cell;
use std::ffi::c_int;

/// The kind of an object: a number that no other userdata begins with, whose last digit is the
/// index of its metatable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct ObjectKind(u64);

pub(super) const REQUEST: ObjectKind = ObjectKind(u64::from_be_bytes(*b"tide-rq0"));
pub(super) const RESPONSE: ObjectKind = ObjectKind(u64::from_be_bytes(*b"tide-rs1"));
pub(super) const REQUEST_HEADERS: ObjectKind = ObjectKind(u64::from_be_bytes(*b"tide-hd2"));
pub(super) const RESPONSE_HEADERS: ObjectKind = ObjectKind(u64::from_be_bytes(*b"tide-hd3"));
pub(super) const BODY: ObjectKind = ObjectKind(u64::from_be_bytes(*b"tide-bd4"));

const KINDS: usize = 5;

/// The registry references of the metatables.
#[derive(Default)]
pub(crate) struct Metatables([Cell<c_int>; KINDS]);

impl Metatables {
    #[inline]
    pub(super) fn of(&self, kind: ObjectKind) -> &Cell<c_int> {
        &self.0[(kind.0 & 0xF) as usize % KINDS]
    }
}
