//! Files against their descriptors, and schemas from both.

use super::source::{FoundType, SourceError, TypeLookup, parse};
use super::*;

/// Types of other files.
struct Imported<'a>(&'a [&'a str]);

impl TypeLookup for Imported<'_> {
    fn known(&mut self, name: &str) -> Option<FieldType> {
        self.0.contains(&name).then_some(FieldType::Message)
    }

    fn unknown(&mut self, _: &str) -> Option<FoundType> {
        None
    }
}

/// A set with the descriptor of a file.
fn compile(text: &str) -> Result<Vec<u8>, SourceError> {
    let mut file = parse(text)?;
    file.resolve(&mut Imported(&[".other.Thing"]))?;
    let descriptor = file.descriptor("test.proto");
    let mut set = Vec::new();
    write_tag(&mut set, 1, WireType::Bytes);
    write_varint(&mut set, descriptor.len() as u64);
    set.extend_from_slice(&descriptor);
    Ok(set)
}

fn schema(text: &str) -> Schema {
    let mut schema = Schema::default();
    schema.load(&compile(text).unwrap()).unwrap();
    schema
}

const FILE: &str = r#"
    // A comment.
    syntax = "proto3";
    package a.b; /* another */
    import public "other.proto";
    option go_package = "x/y"; option (custom).part = { a: 1 b { c: "}" } };
    message Outer {
      reserved 100 to 110, 200; reserved "old";
      Inner inner = 1;
      repeated sint32 numbers = 2;
      repeated sint32 plain = 3 [packed = false, deprecated = true];
      map<string, Inner.Deep> by_name = 4;
      oneof choice { string text = 5; .other.Thing thing = 6; }
      optional uint64 maybe = 7;
      enum Color { option allow_alias = true; RED = 0; GREEN = 1; ALSO = 1; }
      Color color = 8;
      message Inner { message Deep { bool flag = 1 } Deep deep = 1; double value = 2 }
      fixed64 message_id = 536870911;
    }
    service Calls {
      rpc One (Outer) returns (Outer.Inner) { option deadline = 5; }
      rpc Many (stream .a.b.Outer) returns (stream Outer);
    }
"#;

#[test]
fn a_file_becomes_a_schema() {
    let schema = schema(FILE);
    let outer = schema.get(schema.slot("a.b.Outer").unwrap());
    assert_eq!((&*outer.name, outer.base_name(), outer.is_proto3), (".a.b.Outer", "Outer", true));
    let names: Vec<_> = outer.fields.iter().map(|field| (&*field.name, field.number)).collect();
    assert_eq!(names[0], ("inner", 1));
    assert_eq!(names.last(), Some(&("message_id", 536_870_911)));
    let field = |name: &str| outer.field_named(name).unwrap();
    assert!(field("numbers").is_packed && !field("plain").is_packed);
    assert!(field("maybe").has_presence && field("maybe").oneof.is_none());
    assert_eq!(outer.oneofs[field("thing").oneof.unwrap() as usize].0, "choice".into());
    assert!(!field("color").has_presence && field("text").has_presence);
    let entry = schema.type_of(field("by_name")).unwrap();
    assert_eq!((&*entry.name, entry.is_map()), (".a.b.Outer.ByNameEntry", true));
    assert_eq!(&*schema.type_of(entry.field(2).unwrap()).unwrap().name, ".a.b.Outer.Inner.Deep");
    // Of two names of a value the first one counts.
    let color = schema.get(schema.slot(".a.b.Outer.Color").unwrap());
    assert_eq!(&*color.field(1).unwrap().name, "GREEN");
    assert_eq!(color.field_named("ALSO").unwrap().number, 1);
    // A type that is only named is not defined.
    assert_eq!(schema.slot("other.Thing"), None);
    assert_eq!(outer.field(536_870_911).unwrap().kind, FieldType::Fixed64);
    assert!(outer.field(99).is_none() && outer.field(-1).is_none() && outer.field(0).is_none());
}

#[test]
fn proto2_has_defaults_groups_and_extensions() {
    let schema = schema(
        r#"
        message Old {
          required int32 count = 1 [default = -0x10];
          optional string name = 2 [default = 'it''s'];
          optional bytes data = 3 [default = "\001\xff\n"];
          optional double ratio = 4 [default = -inf];
          optional Mode mode = 5 [default = SLOW];
          optional bool flag = 6 [default = true];
          repeated int32 list = 7; repeated int32 packed = 8 [packed=true];
          repeated group Part = 9 { optional uint64 big = 1 [default = 18446744073709551615]; }
          extensions 100 to max;
          unlabelled_is_optional.Never x = 10;
        }
        message Outer { extend Late { optional int32 early = 10; } }
        message Late { extensions 10; }
        message unlabelled_is_optional { message Never {} }
        enum Mode { FAST = 1; SLOW = 2 }
        extend Old { optional string extra = 100; }
        "#,
    );
    let old = schema.get(schema.slot("Old").unwrap());
    let default = |name: &str| old.field_named(name).unwrap().default.clone();
    assert_eq!(default("count"), Some(DefaultValue::Integer(-16)));
    assert_eq!(default("name"), Some(DefaultValue::Bytes((*b"its").into())));
    assert_eq!(default("data"), Some(DefaultValue::Bytes((*b"\x01\xff\n").into())));
    assert_eq!(default("ratio"), Some(DefaultValue::Float(f64::NEG_INFINITY)));
    assert_eq!(default("mode"), Some(DefaultValue::Enum("SLOW".into())));
    assert_eq!(default("flag"), Some(DefaultValue::Bool(true)));
    assert_eq!(default("extra"), None);
    assert!(!old.field_named("list").unwrap().is_packed);
    assert!(old.field_named("packed").unwrap().is_packed);
    assert_eq!(old.field(100).unwrap().kind, FieldType::String);
    assert_eq!(schema.get(schema.slot("Late").unwrap()).field(10).unwrap().name, "early".into());
    let part = old.field_named("part").unwrap();
    assert_eq!(part.kind, FieldType::Group);
    let big = schema.type_of(part).unwrap().field(1).unwrap().default.clone();
    assert_eq!(big, Some(DefaultValue::Integer(-1)));
}

#[test]
fn errors_have_their_place() {
    for (text, error) in [
        (
            "message A {\n  string a = 1\n  int32 b = 1;\n}",
            "3:3: the message has a field with the number 1 already",
        ),
        ("message A { string a = 1; string a = 2; }", "1:27: the message has a field 'a' already"),
        ("message A { reserved 2; string a = 2; }", "1:25: the field number 2 is reserved"),
        (
            "message A { reserved 3 to 9, 4; string a = 2; string b = 7; }",
            "1:47: the field number 7 is reserved",
        ),
        ("message A { string a = 0; }", "1:24: a field number is not between 1 and 536870911"),
        ("message A { string a = 19001; }", "1:24: the field numbers 19000 to 19999 are reserved"),
        ("message A { Missing a = 1; }", "1:13: unknown type 'Missing'; is its file imported?"),
        ("message A {} enum A {}", "1:19: the type '.A' is declared already"),
        ("syntax = 'proto4';", "1:10: unknown syntax 'proto4': 'proto2' or 'proto3' expected"),
        ("edition = '2023';", "1:1: editions are not supported: proto2 and proto3 are"),
        (
            "syntax = 'proto2'; message A { int32 a = 1; }",
            "1:32: a field of proto2 has a label: optional, required or repeated",
        ),
        (
            "syntax = 'proto3'; message A { required int32 a = 1; }",
            "1:32: proto3 has no required fields",
        ),
        (
            "message A { map<float, int32> a = 1; }",
            "1:17: 'float' is not a type of a map's keys: an integer, bool or string",
        ),
        ("message A { string a 1; }", "1:22: '=' expected, got '1'"),
        ("message A {", "1:12: a field expected, got the end of the file"),
        ("\"", "1:1: unfinished string"),
        ("/* ", "1:1: unfinished comment"),
        ("message A { string a = 0x; }", "1:24: malformed number '0x'"),
        ("ü", "1:1: a character that may not stand here"),
        ("option a = {", "1:13: unfinished value: '}' expected"),
        ("service S { rpc A (B) returns (B); }", "1:17: unknown type 'B'; is its file imported?"),
    ] {
        let found = compile(text).map(|_| ()).unwrap_err().to_string();
        assert_eq!(found, error, "{text}");
    }
    let deep = format!("{}{}", "message A {".repeat(200), "}".repeat(200));
    assert!(compile(&deep).unwrap_err().message.contains("nested too deep"));
}

#[test]
fn well_known_files_compile() {
    let mut schema = Schema::default();
    for name in ["any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers"] {
        let text = well_known(&format!("google/protobuf/{name}.proto")).unwrap();
        schema.load(&compile(text).unwrap()).unwrap();
    }
    let text = well_known(DESCRIPTOR).unwrap();
    schema.load(&compile(text).unwrap()).unwrap();
    let file = schema.get(schema.slot("google.protobuf.FileDescriptorProto").unwrap());
    assert_eq!(&*file.field(12).unwrap().name, "syntax");
    assert!(schema.slot("google.protobuf.Struct").is_some());
    assert_eq!(well_known("google/protobuf/none.proto"), None);
}

#[test]
fn invalid_descriptors_are_rejected() {
    let whole = compile(FILE).unwrap();
    let mut rejected = 0;
    for end in 0..whole.len() {
        rejected += usize::from(Schema::default().load(&whole[..end]).is_err());
    }
    assert_eq!(rejected, whole.len() - 1, "only nothing at all is a set");
    // A message, nested beyond all bounds.
    let mut deep = vec![10, 1, b'A'];
    for _ in 0..200 {
        let mut outer = vec![10, 1, b'A', 26];
        write_varint(&mut outer, deep.len() as u64);
        outer.extend_from_slice(&deep);
        deep = outer;
    }
    let wrap = |number: u32, content: &[u8]| {
        let mut out = Vec::new();
        write_tag(&mut out, number, WireType::Bytes);
        write_varint(&mut out, content.len() as u64);
        [out, content.to_vec()].concat()
    };
    let error = Schema::default().load(&wrap(1, &wrap(4, &deep))).unwrap_err();
    assert!(error.reason.contains("nested more than 100 deep"), "{error}");
}

#[test]
fn integers_have_the_length_they_need() {
    for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
        let mut out = Vec::new();
        write_varint(&mut out, value);
        assert_eq!(out.len(), length_of_varint(value));
        let mut reader = Reader::new(&out);
        assert_eq!((reader.varint(), reader.is_empty()), (Ok(value), true));
        assert_eq!(Reader::new(&out[..out.len() - 1]).varint(), Err(WireError::Varint(0)));
    }
    assert_eq!(Reader::new(&[0xff; 11]).varint(), Err(WireError::Varint(0)));
    assert_eq!((zigzag32(-1), zigzag32(i32::MIN), zigzag64(1)), (1, u32::MAX, 2));
}

#[test]
fn unknown_fields_are_skipped() {
    // A group with a group and a string in it, then a field.
    let data = [11, 19, 8, 1, 20, 26, 2, b'h', b'i', 12, 8, 5];
    let mut reader = Reader::new(&data);
    let tag = reader.tag().unwrap();
    reader.skip(tag, DEPTH_MAX).unwrap();
    assert_eq!((reader.tag(), reader.varint()), (Ok(8), Ok(5)));
    assert_eq!(
        Reader::new(&[12]).tag().and_then(|tag| Reader::new(&[]).skip(tag, 1)),
        Err(WireError::Group(0))
    );
    let deep = [11; 200];
    let mut reader = Reader::new(&deep);
    let tag = reader.tag().unwrap();
    assert_eq!(reader.skip(tag, DEPTH_MAX), Err(WireError::TooDeep));
}
