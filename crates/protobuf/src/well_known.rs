//! The files that every compiler of protobuf has: what programs import without bringing it along.

/// The name of the file that describes descriptors.
pub const DESCRIPTOR: &str = "google/protobuf/descriptor.proto";

/// The text of a well-known file by the name it is imported as.
pub fn well_known(name: &str) -> Option<&'static str> {
    FILES.iter().find(|file| file.0 == name).map(|file| file.1)
}

const FILES: &[(&str, &str)] = &[
    (DESCRIPTOR, DESCRIPTOR_TEXT),
    (
        "google/protobuf/any.proto",
        r#"syntax = "proto3"; package google.protobuf;
        message Any { string type_url = 1; bytes value = 2; }"#,
    ),
    (
        "google/protobuf/duration.proto",
        r#"syntax = "proto3"; package google.protobuf;
        message Duration { int64 seconds = 1; int32 nanos = 2; }"#,
    ),
    (
        "google/protobuf/empty.proto",
        r#"syntax = "proto3"; package google.protobuf; message Empty {}"#,
    ),
    (
        "google/protobuf/field_mask.proto",
        r#"syntax = "proto3"; package google.protobuf;
        message FieldMask { repeated string paths = 1; }"#,
    ),
    (
        "google/protobuf/struct.proto",
        r#"syntax = "proto3"; package google.protobuf;
        message Struct { map<string, Value> fields = 1; }
        message Value {
          oneof kind {
            NullValue null_value = 1; double number_value = 2; string string_value = 3;
            bool bool_value = 4; Struct struct_value = 5; ListValue list_value = 6;
          }
        }
        enum NullValue { NULL_VALUE = 0; }
        message ListValue { repeated Value values = 1; }"#,
    ),
    (
        "google/protobuf/timestamp.proto",
        r#"syntax = "proto3"; package google.protobuf;
        message Timestamp { int64 seconds = 1; int32 nanos = 2; }"#,
    ),
    (
        "google/protobuf/wrappers.proto",
        r#"syntax = "proto3"; package google.protobuf;
        message DoubleValue { double value = 1; }
        message FloatValue { float value = 1; }
        message Int64Value { int64 value = 1; }
        message UInt64Value { uint64 value = 1; }
        message Int32Value { int32 value = 1; }
        message UInt32Value { uint32 value = 1; }
        message BoolValue { bool value = 1; }
        message StringValue { string value = 1; }
        message BytesValue { bytes value = 1; }"#,
    ),
];

const DESCRIPTOR_TEXT: &str = r#"
syntax = "proto2";
package google.protobuf;

message FileDescriptorSet { repeated FileDescriptorProto file = 1; }
message FileDescriptorProto {
  optional string name = 1;
  optional string package = 2;
  repeated string dependency = 3;
  repeated int32 public_dependency = 10;
  repeated int32 weak_dependency = 11;
  repeated DescriptorProto message_type = 4;
  repeated EnumDescriptorProto enum_type = 5;
  repeated ServiceDescriptorProto service = 6;
  repeated FieldDescriptorProto extension = 7;
  optional FileOptions options = 8;
  optional SourceCodeInfo source_code_info = 9;
  optional string syntax = 12;
}
message DescriptorProto {
  optional string name = 1;
  repeated FieldDescriptorProto field = 2;
  repeated FieldDescriptorProto extension = 6;
  repeated DescriptorProto nested_type = 3;
  repeated EnumDescriptorProto enum_type = 4;
  message ExtensionRange {
    optional int32 start = 1;
    optional int32 end = 2;
    optional ExtensionRangeOptions options = 3;
  }
  repeated ExtensionRange extension_range = 5;
  repeated OneofDescriptorProto oneof_decl = 8;
  optional MessageOptions options = 7;
  message ReservedRange { optional int32 start = 1; optional int32 end = 2; }
  repeated ReservedRange reserved_range = 9;
  repeated string reserved_name = 10;
}
message ExtensionRangeOptions { extensions 1000 to max; }
message FieldDescriptorProto {
  enum Type {
    TYPE_DOUBLE = 1; TYPE_FLOAT = 2; TYPE_INT64 = 3; TYPE_UINT64 = 4; TYPE_INT32 = 5;
    TYPE_FIXED64 = 6; TYPE_FIXED32 = 7; TYPE_BOOL = 8; TYPE_STRING = 9; TYPE_GROUP = 10;
    TYPE_MESSAGE = 11; TYPE_BYTES = 12; TYPE_UINT32 = 13; TYPE_ENUM = 14; TYPE_SFIXED32 = 15;
    TYPE_SFIXED64 = 16; TYPE_SINT32 = 17; TYPE_SINT64 = 18;
  }
  enum Label { LABEL_OPTIONAL = 1; LABEL_REQUIRED = 2; LABEL_REPEATED = 3; }
  optional string name = 1;
  optional int32 number = 3;
  optional Label label = 4;
  optional Type type = 5;
  optional string type_name = 6;
  optional string extendee = 2;
  optional string default_value = 7;
  optional int32 oneof_index = 9;
  optional string json_name = 10;
  optional FieldOptions options = 8;
  optional bool proto3_optional = 17;
}
message OneofDescriptorProto { optional string name = 1; optional OneofOptions options = 2; }
message EnumDescriptorProto {
  optional string name = 1;
  repeated EnumValueDescriptorProto value = 2;
  optional EnumOptions options = 3;
  message EnumReservedRange { optional int32 start = 1; optional int32 end = 2; }
  repeated EnumReservedRange reserved_range = 4;
  repeated string reserved_name = 5;
}
message EnumValueDescriptorProto {
  optional string name = 1;
  optional int32 number = 2;
  optional EnumValueOptions options = 3;
}
message ServiceDescriptorProto {
  optional string name = 1;
  repeated MethodDescriptorProto method = 2;
  optional ServiceOptions options = 3;
}
message MethodDescriptorProto {
  optional string name = 1;
  optional string input_type = 2;
  optional string output_type = 3;
  optional MethodOptions options = 4;
  optional bool client_streaming = 5;
  optional bool server_streaming = 6;
}
message FileOptions {
  enum OptimizeMode { SPEED = 1; CODE_SIZE = 2; LITE_RUNTIME = 3; }
  optional string java_package = 1;
  optional string java_outer_classname = 8;
  optional OptimizeMode optimize_for = 9;
  optional bool java_multiple_files = 10;
  optional string go_package = 11;
  optional bool cc_generic_services = 16;
  optional bool java_generic_services = 17;
  optional bool py_generic_services = 18;
  optional bool java_generate_equals_and_hash = 20;
  optional bool deprecated = 23;
  optional bool java_string_check_utf8 = 27;
  optional bool cc_enable_arenas = 31;
  optional string objc_class_prefix = 36;
  optional string csharp_namespace = 37;
  optional string swift_prefix = 39;
  optional string php_class_prefix = 40;
  optional string php_namespace = 41;
  optional string php_metadata_namespace = 44;
  optional string ruby_package = 45;
  extensions 1000 to max;
}
message MessageOptions {
  optional bool message_set_wire_format = 1;
  optional bool no_standard_descriptor_accessor = 2;
  optional bool deprecated = 3;
  optional bool map_entry = 7;
  optional bool deprecated_legacy_json_field_conflicts = 11;
  extensions 1000 to max;
}
message FieldOptions {
  enum CType { STRING = 0; CORD = 1; STRING_PIECE = 2; }
  enum JSType { JS_NORMAL = 0; JS_STRING = 1; JS_NUMBER = 2; }
  optional CType ctype = 1;
  optional bool packed = 2;
  optional bool deprecated = 3;
  optional bool lazy = 5;
  optional JSType jstype = 6;
  optional bool weak = 10;
  optional bool unverified_lazy = 15;
  optional bool debug_redact = 16;
  extensions 1000 to max;
}
message OneofOptions { extensions 1000 to max; }
message EnumOptions {
  optional bool allow_alias = 2;
  optional bool deprecated = 3;
  optional bool deprecated_legacy_json_field_conflicts = 6;
  extensions 1000 to max;
}
message EnumValueOptions {
  optional bool deprecated = 1;
  optional bool debug_redact = 3;
  extensions 1000 to max;
}
message ServiceOptions { optional bool deprecated = 33; extensions 1000 to max; }
message MethodOptions {
  enum IdempotencyLevel { IDEMPOTENCY_UNKNOWN = 0; NO_SIDE_EFFECTS = 1; IDEMPOTENT = 2; }
  optional bool deprecated = 33;
  optional IdempotencyLevel idempotency_level = 34;
  extensions 1000 to max;
}
message SourceCodeInfo {
  message Location {
    repeated int32 path = 1 [packed = true];
    repeated int32 span = 2 [packed = true];
    optional string leading_comments = 3;
    optional string trailing_comments = 4;
    repeated string leading_detached_comments = 6;
  }
  repeated Location location = 1;
}
"#;
