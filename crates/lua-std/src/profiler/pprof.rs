//! The format of pprof: a gzipped message of Protocol Buffers, `profile.proto` of google/pprof.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use coding::{Coding, EncodeError, encode_all};
use lua_vm::profile::{Profile, ProfileKind, ProfiledFrame};
use protobuf::{WireType, write_tag, write_varint};

/// The field numbers of `Profile`.
const SAMPLE_TYPE: u32 = 1;
const SAMPLE: u32 = 2;
const LOCATION: u32 = 4;
const FUNCTION: u32 = 5;
const STRING_TABLE: u32 = 6;
const TIME_NANOS: u32 = 9;
const DURATION_NANOS: u32 = 10;
const PERIOD_TYPE: u32 = 11;
const PERIOD: u32 = 12;

const LEVEL: u32 = 6;

/// The string table; the first one is empty.
struct Strings {
    indexes: HashMap<String, u64>,
    list: Vec<String>,
}

impl Strings {
    fn index(&mut self, text: &str) -> u64 {
        if let Some(index) = self.indexes.get(text) {
            return *index;
        }
        let index = self.list.len() as u64;
        self.list.push(text.to_owned());
        self.indexes.insert(text.to_owned(), index);
        index
    }
}

fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    if value != 0 {
        write_tag(out, field, WireType::Varint);
        write_varint(out, value);
    }
}

fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    write_tag(out, field, WireType::Bytes);
    write_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn packed(out: &mut Vec<u8>, field: u32, values: &[u64]) {
    let mut list = Vec::new();
    for value in values {
        write_varint(&mut list, *value);
    }
    bytes(out, field, &list);
}

/// A message with numbers only.
fn numbers(fields: &[(u32, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (field, value) in fields {
        number(&mut out, *field, *value);
    }
    out
}

/// Encodes a profile.
pub(super) fn encode(profile: &Profile) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    let mut strings =
        Strings { indexes: HashMap::from([(String::new(), 0)]), list: vec![String::new()] };
    let (kind, unit) = match profile.kind {
        ProfileKind::Cpu { .. } => ("cpu", "nanoseconds"),
        ProfileKind::Allocations => ("alloc_space", "bytes"),
    };
    for (kind, unit) in [("samples", "count"), (kind, unit)] {
        let value = numbers(&[(1, strings.index(kind)), (2, strings.index(unit))]);
        bytes(&mut out, SAMPLE_TYPE, &value);
    }
    let mut locations: HashMap<ProfiledFrame, u64> = HashMap::new();
    for stack in &profile.stacks {
        let mut ids = Vec::new();
        for frame in &stack.frames {
            let next = locations.len() as u64 + 1;
            ids.push(*locations.entry(*frame).or_insert(next));
        }
        let mut sample = Vec::new();
        packed(&mut sample, 1, &ids);
        packed(&mut sample, 2, &[stack.samples, stack.weight]);
        bytes(&mut out, SAMPLE, &sample);
    }
    for (frame, id) in &locations {
        let line = u64::try_from(frame.line).unwrap_or(0);
        let line = numbers(&[(1, u64::from(frame.function) + 1), (2, line)]);
        let mut location = numbers(&[(1, *id)]);
        bytes(&mut location, 4, &line);
        bytes(&mut out, LOCATION, &location);
    }
    for (index, function) in profile.functions.iter().enumerate() {
        let name = strings.index(&function.name);
        let begins = u64::try_from(function.line).unwrap_or(0);
        let function = numbers(&[
            (1, index as u64 + 1),
            (2, name),
            (3, name),
            (4, strings.index(&function.source)),
            (5, begins),
        ]);
        bytes(&mut out, FUNCTION, &function);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    number(&mut out, TIME_NANOS, now.as_nanos() as u64);
    number(&mut out, DURATION_NANOS, profile.duration.as_nanos() as u64);
    let period = numbers(&[(1, strings.index(kind)), (2, strings.index(unit))]);
    bytes(&mut out, PERIOD_TYPE, &period);
    number(&mut out, PERIOD, profile.period());
    for text in &strings.list {
        bytes(&mut out, STRING_TABLE, text.as_bytes());
    }
    encode_all(Coding::Gzip, LEVEL, &out)
}
