//! `pb` and `protoc` of Lua programs against Google's compiler and Python's protobuf.

use crate::tools::{command, python_with};
use scenarios::{Process, tidegate_binary};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Proto3: every type, as field, list and value of a map.
const NEW: &str = r#"syntax = "proto3";
package new;
import public "shared/parts.proto";
import "google/protobuf/timestamp.proto";
option go_package = "shop/" "new";
option optimize_for = CODE_SIZE;
message All {
  reserved 500 to 510, 600;
  reserved "gone", "lost";
  double a = 1; float b = 2; int64 c = 3; uint64 d = 4; int32 e = 5; fixed64 f = 6;
  fixed32 g = 7; bool h = 8; string i = 9; bytes j = 10; uint32 k = 11; Color l = 12;
  sfixed32 m = 13; sfixed64 n = 14; sint32 o = 15; sint64 p = 16; All q = 17;
  repeated double ra = 21; repeated float rb = 22; repeated int64 rc = 23;
  repeated uint64 rd = 24 [packed = false]; repeated int32 re = 25; repeated fixed64 rf = 26;
  repeated fixed32 rg = 27; repeated bool rh = 28; repeated string ri = 29;
  repeated bytes rj = 30; repeated uint32 rk = 31; repeated Color rl = 32 [deprecated = true];
  repeated sfixed32 rm = 33; repeated sfixed64 rn = 34; repeated sint32 ro = 35;
  repeated sint64 rp = 36; repeated All rq = 37;
  map<string, int32> ma = 41; map<int32, All> mb = 42; map<bool, Color> mc = 43;
  map<sint64, bytes> md = 44; map<fixed32, double> me = 45; map<uint64, Part.Deep> mf = 46;
  oneof choice { string x = 51; Part y = 52; bool z = 53; Color w = 54; }
  optional int32 oa = 61; optional string ob = 62; optional Color oc = 63; optional bool od = 64;
  Part part = 71 [json_name = "ownName"]; google.protobuf.Timestamp at = 72;
  .shared.Unit unit = 536870911;
  message Part {
    message Deep { int32 deep = 1; }
    Deep deep = 1;
    enum Size { S = 0; L = 0x7f; }
    Size size = 2;
  }
  enum Color {
    option allow_alias = true;
    reserved -10 to -5, 100; reserved "PINK";
    RED = 0; GREEN = 1; BLUE = -1; ALSO_BLUE = -1 [deprecated = true]; FAR = 2147483647;
  }
}
service Calls {
  option deprecated = true;
  rpc One (All) returns (All.Part);
  rpc Watch (.new.All) returns (stream shared.Unit) { option idempotency_level = NO_SIDE_EFFECTS; }
  rpc Total (stream All) returns (All);
  rpc Chat (stream All) returns (stream All) { option deprecated = true; }
}
"#;

/// Proto2: defaults, groups, extensions.
const OLD: &str = r#"syntax = "proto2";
package old;
import "shared/parts.proto";
message Old {
  required int32 a = 1 [default = -0x10];
  optional string b = 2 [default = "it's \"so\""];
  optional bytes c = 3 [default = "\001\xff\n\\'?"];
  optional double d = 4 [default = -inf];
  optional Mode e = 5 [default = SLOW];
  optional bool f = 6 [default = true];
  optional uint64 g = 7 [default = 18446744073709551615];
  optional float h = 8 [default = 1.5];
  repeated int32 i = 9; repeated sint64 j = 10 [packed = true]; repeated Mode k = 11;
  repeated group Part = 12 { optional int32 number = 1; optional Old more = 2; }
  optional group Single = 13 { optional string text = 1; }
  optional Old l = 14; optional shared.Unit m = 15; map<string, Old> n = 16;
  oneof choice { int32 o = 17; string p = 18; group Both = 19 { optional bool q = 1; } }
  extensions 100 to 199, 1000 to max;
  enum Mode { FAST = 1; SLOW = 2; }
}
message Outer {
  optional Old old = 1;
  extend Old { optional int32 inner = 101; }
}
extend Old { optional string extra = 100; optional Old.Mode mode = 1000; }
"#;

const SHARED: &str = r#"syntax = "proto3";
package shared;
message Unit { int32 amount = 1; string of = 2; }
"#;

const PROGRAM: &str = r#"
local pb, protoc = require "pb", require "protoc"
local function write(name, data)
  local file <close> = assert(io.open(name, "wb"))
  assert(file:write(data))
end
local compiler = protoc.new()
compiler.include_imports = true
local set = compiler:compilefile "new.proto"
-- What was compiled is known: the second file alone.
compiler.include_imports = false
set = set .. compiler:compilefile "old.proto"
write("ours.set", set)
assert(pb.load(set))

local message
local function value(kind, content)
  local _, _, what = pb.type(kind)
  if what == "message" then return message(kind, content) end
  if kind == "bytes" or kind == "string" then
    return (content:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end))
  end
  if math.type(content) == "float" then return ("%.17g"):format(content) end
  return tostring(content)
end

local function field(kind, label, content)
  local _, _, what = pb.type(kind)
  if label == "optional" then return value(kind, content) end
  local entries = {}
  if what == "map" then
    local _, _, key_kind = pb.field(kind, "key")
    local _, _, value_kind = pb.field(kind, "value")
    for key, entry in pairs(content) do
      entries[#entries + 1] = value(key_kind, key) .. ":" .. value(value_kind, entry)
    end
    table.sort(entries)
  else
    for index, entry in ipairs(content) do entries[index] = value(kind, entry) end
  end
  return #entries > 0 and "[" .. table.concat(entries, ",") .. "]" or nil
end

function message(kind, content)
  local texts = {}
  for name, _, of, _, label in pb.fields(kind) do
    local text = content[name] ~= nil and field(of, label, content[name])
    if text then texts[#texts + 1] = name .. "=" .. text .. ";" end
  end
  return "{" .. table.concat(texts) .. "}"
end

local lines = {}
for line in io.lines "messages.txt" do
  local kind, data = line:match "^(%S+) (%x*) "
  local decoded = pb.decode(kind, pb.fromhex(data))
  local written = pb.tohex(pb.encode(kind, decoded)):gsub(" ", "")
  lines[#lines + 1] = ("%s %s %s\n"):format(kind, written, message(kind, decoded))
end
write("ours.txt", table.concat(lines))
require "silly".exit()
"#;

#[test]
fn files_and_messages_are_the_same_as_googles() {
    let Some(python) = python_with("grpc_tools.protoc, google.protobuf") else { return };
    let directory = TempDir::new().expect("a temporary directory");
    fs::create_dir(directory.path().join("shared")).expect("a directory");
    let files = [
        ("new.proto", NEW),
        ("old.proto", OLD),
        ("shared/parts.proto", SHARED),
        ("program.lua", PROGRAM),
    ];
    for (name, text) in files {
        fs::write(directory.path().join(name), text).expect("a writable directory");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/lua_pb.py");
    let python = |step: &str| {
        let mut command = command(&python.display().to_string(), directory.path());
        let exit = Process::run(command.arg(&script).arg(step).arg(directory.path()));
        assert_eq!(exit.code, Some(0), "{step}: {exit:?}");
        exit.stdout
    };
    python("write");
    let mut program = Command::new(tidegate_binary());
    let exit = Process::run(program.current_dir(directory.path()).args(["run", "program.lua"]));
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert_eq!(python("check"), "300 messages\n");
}
