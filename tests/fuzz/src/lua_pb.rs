//! Protocol buffers of Lua: messages that another implementation reads are read alike, and are the
//! same after they were written; a `.proto` file that compiles has a descriptor that loads.

use crate::{FuzzTarget, owned};
use lua_std::{VmContext, open_vm};
use lua_vm::{Vm, VmOptions};
use mlua::{Function, LuaString};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use protobuf::source::{FoundType, TypeLookup, parse};
use protobuf::{FieldType, Schema, WireType, write_tag, write_varint};
use std::rc::Rc;

pub(crate) const MESSAGE: FuzzTarget = FuzzTarget {
    check: message,
    seeds: || owned(MESSAGES),
    dictionary: &["\u{8}", "\u{12}", "\u{1a}", "\u{22}", "\u{2}", "\u{1}", "\u{80}", "\u{7f}"],
    cases: 4000,
};

pub(crate) const SOURCE: FuzzTarget = FuzzTarget {
    check: source,
    seeds: || owned(SOURCES),
    dictionary: &[
        "message ",
        "enum ",
        "service ",
        "rpc ",
        "oneof ",
        "map<",
        "repeated ",
        "optional ",
        "extend ",
        "option ",
        "syntax = \"proto3\";",
        "{",
        "}",
        ";",
        "=",
        "[",
        "]",
        "(",
        ")",
        "0x1f",
        "1.5e3",
        "-",
        "int32 ",
        "string ",
        "reserved ",
        " to ",
        "max",
        "//",
        "/*",
        "\"",
    ],
    cases: 4500,
};

const SCHEMA: &str = r#"
    syntax = "proto3";
    message All {
        double a = 1; float b = 2; int64 c = 3; uint64 d = 4; int32 e = 5; fixed64 f = 6;
        fixed32 g = 7; bool h = 8; string i = 9; bytes j = 10; uint32 k = 11; Color l = 12;
        sfixed32 m = 13; sfixed64 n = 14; sint32 o = 15; sint64 p = 16; All q = 17;
        repeated int32 r = 18; repeated string s = 19; map<string, int32> t = 20;
        map<int32, All> u = 21; repeated All v = 22;
        oneof w { string x = 23; All y = 24; bool z = 25; }
        optional int32 aa = 26; repeated Color bb = 27; repeated double cc = 28;
        map<bool, Color> dd = 29; repeated uint64 ee = 30 [packed = false];
    }
    enum Color { RED = 0; GREEN = 1; BLUE = -1; }
"#;

const MESSAGES: &[&[u8]] = &[
    b"",
    b"\x09\0\0\0\0\0\0\xf8\x3f\x15\0\0\0\xc0\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x28\x05\x40\x01\x4a\x02hi\x52\x02\0\xff\x60\x01\x78\x09\x80\x01\x0b",
    b"\x8a\x01\x02\x28\x01\x92\x01\x03\x01\xac\x02\x9a\x01\x01a\x90\x01\x07",
    b"\xa2\x01\x05\x0a\x01k\x10\x07\xaa\x01\x06\x08\x03\x12\x02\x28\x01\xb2\x01\0",
    b"\xba\x01\x01x\xc2\x01\x02\x28\x02\xc2\x01\x03\x4a\x01y\xc8\x01\x01",
    b"\xd0\x01\0\xda\x01\x02\x01\x05\xea\x01\x04\x08\x01\x10\x01\xf0\x01\x05",
    b"\xf3\x01\x08\x01\xf4\x01\xfd\x07\0\0\0\0",
    b"\x8a\x01\x09\x8a\x01\x06\x8a\x01\x03\x4a\x01z",
];

const SOURCES: &[&str] = &[
    SCHEMA,
    "syntax = \"proto2\"; package a.b; message A { required int32 a = 1 [default = -5]; \
     repeated group B = 2 { optional bytes c = 3 [default = \"\\001\"]; } extensions 100 to max;\
     }\n\
     extend A { optional string d = 100; }",
    "service S { rpc One (A) returns (stream A) { option (x).y = { z: 1 }; } } message A {}",
    "message A { reserved 1 to 5, 9; reserved \"a\"; oneof b { int32 c = 6 } enum D { E = 0 } }",
    "import public \"x.proto\"; option go_package = 'a' \"b\"; /* */\n\
     message A { .A a = 1; } // end",
    "enum A { option allow_alias = true; B = 0x10; C = 020; D = -1 [deprecated = true]; }",
];

/// Decodes, and encodes what was decoded; nil and the error if that fails.
const CODEC: &str = r#"
local pb, schema = require "pb", ...
assert(require "protoc".new():load(schema))
return function(data)
    local ok, message = pcall(pb.decode, "All", data)
    if not ok then return nil, message end
    return pb.encode("All", message)
end
"#;

struct Codec {
    /// Keeps the state alive that the function lives in.
    vm: Rc<Vm>,
    codec: Function,
    other: MessageDescriptor,
}

thread_local! {
    static CODECS: Codec = {
        let vm = open_vm(VmOptions::default(), VmContext::default()).expect("a VM");
        let codec = vm.lua().load(CODEC).call(SCHEMA).expect("the codec compiles");
        let pool = DescriptorPool::decode(&*compile(SCHEMA).expect("a schema"));
        let pool = pool.expect("our descriptor");
        let other = pool.get_message_by_name("All").expect("the message");
        Codec { vm, codec, other }
    };
}

fn message(data: &[u8]) {
    CODECS.with(|codecs| {
        let lua = codecs.vm.lua();
        let ours: (Option<LuaString>, Option<String>) = codecs
            .codec
            .call(lua.create_string(data).expect("memory"))
            .unwrap_or_else(|error| panic!("{error}"));
        let theirs = |data: &[u8]| DynamicMessage::decode(codecs.other.clone(), data);
        let Ok(expected) = theirs(data) else { return };
        match ours {
            // A field of another wire type is an error for us and an unknown field for others.
            (None, error) => {
                let error = error.unwrap_or_default();
                let is_known = error.contains("type mismatch") || error.contains("100 deep");
                assert!(is_known, "{error}: {expected:?}");
            }
            (Some(written), _) => {
                let again = theirs(&written.as_bytes()).expect("what we write");
                assert_eq!(json(&again), json(&expected), "{data:02x?}");
            }
        }
    });
}

/// The content without unknown fields.
fn json(message: &DynamicMessage) -> serde_json::Value {
    serde_json::to_value(message).expect("a message is JSON")
}

/// Nothing but what the file declares.
struct Alone;

impl TypeLookup for Alone {
    fn known(&mut self, _: &str) -> Option<FieldType> {
        None
    }

    fn unknown(&mut self, _: &str) -> Option<FoundType> {
        None
    }
}

/// A set with the descriptor of a file; `None` if it is not valid.
fn compile(text: &str) -> Option<Vec<u8>> {
    let mut file = parse(text).ok()?;
    file.resolve(&mut Alone).ok()?;
    let descriptor = file.descriptor("a.proto");
    let mut set = Vec::new();
    write_tag(&mut set, 1, WireType::Bytes);
    write_varint(&mut set, descriptor.len() as u64);
    set.extend_from_slice(&descriptor);
    Some(set)
}

fn source(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(set) = compile(text) {
        let mut schema = Schema::default();
        schema.load(&set).unwrap_or_else(|error| panic!("{error}: {text}"));
        let file = parse(text).expect("what compiled");
        for (name, _) in file.declared().unwrap_or_default() {
            assert!(schema.slot(&name).is_some(), "{name}: {text}");
        }
        for option in file.custom_options() {
            assert!(!option.name.is_empty() && !option.name.contains('('), "{option:?}: {text}");
        }
    }
    // Whatever the bytes are, they are a schema or an error.
    let _ = Schema::default().load(data);
}
