//! Programs that use `pb` and `protoc`; the bytes are those of other implementations.

use crate::testing::output;

const SCHEMA: &str = r#"
    local pb, protoc = require "pb", require "protoc"
    local p = protoc.new()
    assert(p:load([[
        syntax = "proto3";
        package t;
        message All {
            double a = 1; float b = 2; int64 c = 3; uint64 d = 4; int32 e = 5; fixed64 f = 6;
            fixed32 g = 7; bool h = 8; string i = 9; bytes j = 10; uint32 k = 11; Color l = 12;
            sfixed32 m = 13; sfixed64 n = 14; sint32 o = 15; sint64 p = 16; All q = 17;
            repeated int32 r = 18; repeated string s = 19; map<string, int32> t = 20;
            map<int32, All> u = 21; repeated All v = 22;
            oneof w { string x = 23; All y = 24; }
            optional int32 z = 25; repeated Color aa = 26;
        }
        enum Color { RED = 0; GREEN = 1; BLUE = -1; }
    ]], "t.proto"))
"#;

fn program(text: &str) -> Vec<String> {
    output(&format!("{SCHEMA}\n{text}\nrequire 'silly'.exit()"))
}

#[test]
fn messages_have_the_bytes_of_other_implementations() {
    // Written by Python's protobuf.
    let lines = program(
        r#"
        local function hex(t) return pb.tohex(pb.encode("t.All", t)) end
        say(hex { a = 1.5, b = -2 })
        say(hex { c = -1, d = -1, e = -5 })
        say(hex { f = 1, g = 2, m = -3, n = -4, o = -5, p = -6 })
        say(hex { h = true, i = "hi", j = "\0\xff", k = 4294967295, l = "BLUE" })
        say(hex { q = { e = 1 }, r = { 1, 300, -1 }, s = { "a", "" } })
        say(hex { t = { k = 7 }, u = { [3] = { e = 1 } }, v = { {}, { e = 2 } } })
        say(hex { x = "", z = 0, aa = { "GREEN", 0 } })
        say(hex { a = 0, e = 0, h = false, i = "", l = "RED", r = {}, s = {}, t = {} } == "")
        pb.option "encode_default_values"
        say(hex { e = 0, i = "" })
    "#,
    );
    assert_eq!(
        lines,
        [
            "09 00 00 00 00 00 00 F8 3F 15 00 00 00 C0",
            "18 FF FF FF FF FF FF FF FF FF 01 20 FF FF FF FF FF FF FF FF FF 01 28 FB FF FF FF FF \
             FF FF FF FF 01",
            "31 01 00 00 00 00 00 00 00 3D 02 00 00 00 6D FD FF FF FF 71 FC FF FF FF FF FF FF FF \
             78 09 80 01 0B",
            "40 01 4A 02 68 69 52 02 00 FF 58 FF FF FF FF 0F 60 FF FF FF FF FF FF FF FF FF 01",
            "8A 01 02 28 01 92 01 0D 01 AC 02 FF FF FF FF FF FF FF FF FF 01 9A 01 01 61 9A 01 00",
            "A2 01 05 0A 01 6B 10 07 AA 01 06 08 03 12 02 28 01 B2 01 00 B2 01 02 28 02",
            "BA 01 00 C8 01 00 D2 01 02 01 00",
            "true",
            "28 00 4A 00",
        ]
    );
}

#[test]
fn what_is_encoded_is_decoded() {
    let lines = program(
        r##"
        local data = pb.encode("t.All", {
            a = 0.1, b = 0.5, c = math.mininteger, d = "#18446744073709551615", e = -2147483648,
            i = "text", l = "GREEN", q = { q = { i = "deep" } }, r = { 1, 2 }, t = { a = 1, b = 2 },
            u = { [-1] = { e = 3 } }, v = { { e = 1 }, { e = 2 } },
            y = { i = "chosen" }, aa = { 1, 5 },
            p = ("x"):rep(3) and 5, s = { ("long"):rep(100) },
        })
        local t = pb.decode(".t.All", data)
        say(t.a, t.b, t.c, t.d, t.e, t.i, t.l)
        say(t.q.q.i, #t.r, t.t.a + t.t.b, t.u[-1].e, t.v[2].e, t.y.i, t.w, t.x, t.aa[1], t.aa[2])
        say(t.f, t.h, t.j == "", t.z, t.q.q.q, #t.q.r, #t.s[1])
        pb.option "int64_as_string"
        pb.option "enum_as_value"
        t = pb.decode("t.All", data)
        say(t.c, t.d, t.l, t.p)
        pb.option "int64_as_hexstring"
        say(pb.decode("t.All", data).c)
        pb.option "int64_as_number"
        -- The last member of a oneof counts, and parts of one message are joined.
        t = pb.decode("t.All", pb.fromhex "ba0101 61 c201 02 2801 c201 03 4a0162")
        say(t.x, t.w, t.y.e, t.y.i)
        local into = { e = 9, r = { 5 } }
        say(pb.decode("t.All", pb.fromhex "9201 01 07", into) == into, into.e, #into.r, into.a)
        say(pb.decode("t.All").e, next(pb.decode("t.All", "").t))
    "##,
    );
    assert_eq!(
        lines,
        [
            "0.1 0.5 -9223372036854775808 -1 -2147483648 text GREEN",
            "deep 2 3 3 2 chosen y nil GREEN 5",
            "0 false true nil nil 0 400",
            "#-9223372036854775808 -1 1 5",
            "#-0x8000000000000000",
            "nil y 1 b",
            "true 9 2 nil",
            "0 nil",
        ]
    );
}

#[test]
fn defaults_follow_the_options() {
    let lines = program(
        r#"
        assert(p:load([[
            syntax = "proto2"; package two;
            message Old {
                optional int32 n = 1 [default = 7]; optional string s = 2 [default = "x"];
                optional bool b = 3; repeated int32 r = 4; optional Old o = 5;
                optional Mode m = 6 [default = ON];
            }
            enum Mode { OFF = 0; ON = 1; }
        ]]))
        local function show(t)
            local names = {}
            for name, value in pairs(t) do
                local text = type(value) == "table" and "{}" or tostring(value)
                names[#names + 1] = name .. "=" .. text
            end
            table.sort(names)
            return table.concat(names, " ")
        end
        say(show(pb.decode "two.Old"))
        pb.option "use_default_values"
        say(show(pb.decode "two.Old"))
        pb.option "use_default_metatable"
        local t = pb.decode "two.Old"
        say(show(t), t.n, t.s, t.m, t.b, pb.defaults("two.Old").n)
        pb.option "no_default_values"
        say(show(pb.decode "two.Old"), show(pb.decode "t.All"))
        pb.option "decode_default_array"
        pb.option "decode_default_message"
        say(show(pb.decode "two.Old"))
        -- A message is in its default only as often as it is not in itself.
        say(pb.decode("t.All").q)
    "#,
    );
    assert_eq!(lines, ["", "m=ON n=7 s=x", " 7 x ON nil 7", " ", "r={}", "nil"]);
}

#[test]
fn types_are_listed_and_removed() {
    let lines = program(
        r#"
        say(pb.type "t.All")
        say(pb.type ".t.Color")
        say(pb.type "t.All.TEntry")
        say(pb.type "t.None" == nil)
        say(pb.field("t.All", "r"))
        say(pb.field("t.All", 23))
        say(pb.field("t.All", "q"))
        say(pb.field("t.All", "s"))
        local count = 0
        for name, number, kind in pb.fields "t.All" do count = count + number end
        say(count)
        say(pb.enum("t.Color", "BLUE"), pb.enum("t.Color", 1), pb.enum("t.Color", "none"))
        local names = {}
        for name in pb.types() do if name:find "^%.t%." then names[#names + 1] = name end end
        table.sort(names)
        say(table.concat(names, " "))
        say(pb.typefmt "int32", pb.typefmt "t.All", pb.typefmt "i")
        pb.clear("t.All", "r")
        say(pb.field("t.All", "r"))
        pb.clear "t.Color"
        say(pb.type "t.Color")
        local before = pb.state(nil)
        say(pb.type "t.All")
        pb.state(before)
        say((pb.type "t.All"))
        pb.clear()
        say(pb.type "t.All")
        say(pb.load "\10\5abc")
    "#,
    );
    assert_eq!(
        lines,
        [
            ".t.All All message",
            ".t.Color Color enum",
            ".t.All.TEntry TEntry map",
            "true",
            "r 18 int32 nil packed",
            "x 23 string nil optional w 0",
            "q 17 .t.All nil optional",
            "s 19 string nil repeated",
            "351",
            "-1 GREEN",
            ".t.All .t.All.TEntry .t.All.UEntry .t.Color",
            "i message int32 5",
            "",
            "",
            "",
            ".t.All",
            "",
            "false 1 unfinished bytes at offset 2",
        ]
    );
}

#[test]
fn hooks_change_messages_and_may_load_types() {
    let lines = program(
        r#"
        pb.option "enable_hooks"
        pb.option "enable_enchooks"
        say(pb.hook("t.All", function(t)
            t.seen = true
            -- What runs in the hook may use the module.
            p:load("message Fresh" .. tostring(t.e) .. " { int32 a = 1; }")
            if t.e == 2 then return { replaced = pb.encode("t.All", { e = 5 }) } end
        end))
        pb.hook("t.Color", function(name) return name:lower() end)
        local t = pb.decode("t.All", pb.encode("t.All", { e = 1, q = { e = 2 }, l = "GREEN" }))
        say(t.seen, t.e, pb.tohex(t.q.replaced), t.l, (pb.type "Fresh2"))
        say(type(pb.hook("t.All", nil)), pb.hook "t.All")
        pb.encode_hook("t.All", function(t) return { e = t.e + 1 } end)
        pb.encode_hook("t.Color", function(name) return name:upper() end)
        say(pb.tohex(pb.encode("t.All", { e = 1 })))
        pb.encode_hook("t.All", nil)
        say(pb.tohex(pb.encode("t.All", { l = "green", q = { e = 1 } })))
        pb.hook("t.All", function() error "from the hook" end)
        say(pcall(pb.decode, "t.All", ""))
        pb.option "disable_hooks"
        say(pcall(pb.decode, "t.All", ""))
    "#,
    );
    assert_eq!(lines[0], "nil");
    assert_eq!(lines[1], "true 1 28 05 green .Fresh2");
    assert_eq!(&lines[2..5], ["function nil", "28 02", "60 01 8A 01 02 28 01"]);
    assert!(lines[5].starts_with("false ") && lines[5].ends_with("from the hook"), "{}", lines[5]);
    assert!(lines[6].starts_with("true table"), "{}", lines[6]);
}

#[test]
fn errors_name_what_is_wrong() {
    let lines = program(
        r#"
        local function fails(...)
            local ok, err = pcall(...)
            assert(not ok)
            say((err:gsub("^.-:%d+: ", "")))
        end
        fails(pb.encode, "t.None", {})
        fails(pb.encode, "t.Color", {})
        fails(pb.encode, "t.All", 5)
        fails(pb.encode, "t.All", { e = "x" })
        fails(pb.encode, "t.All", { e = 1.5 })
        fails(pb.encode, "t.All", { i = 5 })
        fails(pb.encode, "t.All", { q = 5 })
        fails(pb.encode, "t.All", { r = 5 })
        fails(pb.encode, "t.All", { l = "PINK" })
        local cyclic = {}
        cyclic.q = cyclic
        fails(pb.encode, "t.All", cyclic)
        fails(pb.decode, "t.All", "\x28")
        fails(pb.decode, "t.All", "\x2a\x01\x00")
        fails(pb.decode, "t.All", "\x8a\x01\x02\x4a\x05")
        fails(pb.decode, "t.All", "\x00\x00")
        fails(pb.decode, "t.All", 5)
        local deep = ""
        for _ = 1, 120 do deep = pb.pack("vs", 138, deep) end
        fails(pb.decode, "t.All", deep)
        fails(pb.option, "enum_as_names")
        fails(pb.hook, "t.None", print)
        fails(protoc.load, protoc, "message A { int32 a = 1")
        fails(p.load, p, "import 'none.proto';", "a.proto")
        fails(p.load, p, "message A { None a = 1; }", "b.proto")
    "#,
    );
    let expected = [
        "bad argument #1 to 'encode' (type 't.None' does not exist)",
        "bad argument #1 to 'encode' (type 't.Color' is an enum)",
        "bad argument #2 to 'encode' (table expected, got number)",
        "bad argument #2 to 'encode' (number expected for field 'e', got string)",
        "bad argument #2 to 'encode' (integer expected for field 'e', got number)",
        "bad argument #2 to 'encode' (string expected for field 'i', got number)",
        "bad argument #2 to 'encode' (table expected at field 'q', got number)",
        "bad argument #2 to 'encode' (table expected at field 'r', got number)",
        "bad argument #2 to 'encode' (can not encode unknown enum 'PINK' at field 'l')",
        "bad argument #2 to 'encode' (messages are nested more than 100 deep)",
        "invalid varint value at offset 2",
        "type mismatch for field 'e' at offset 2, varint expected for type int32, got bytes",
        "unfinished bytes at offset 5",
        "invalid tag at offset 1",
    ];
    for (line, expected) in lines.iter().zip(expected) {
        // Lua takes one of the names that the module has.
        let line = line.replace("'silly.pb.encode'", "'encode'").replace("'pb.encode'", "'encode'");
        assert_eq!(line, expected);
    }
    let has = |index: usize, part: &str| assert!(lines[index].contains(part), "{}", lines[index]);
    has(14, "string/buffer/slice expected, got integer");
    has(15, "messages are nested more than 100 deep");
    has(16, "invalid option 'enum_as_names': enum_as_name, enum_as_value, ");
    has(17, "bad argument #1 to 'hook' (type not found)");
    has(18, "a field expected, got the end of the file");
    has(19, "module load error: none.proto\n\t./none.proto: No such file or directory");
    has(20, "unknown type 'None'; is its file imported?");
}

#[test]
fn files_import_each_other() {
    let lines = program(
        r#"
        local files = {
            ["a.proto"] = "package a; import 'b.proto'; message A { optional b.B b = 1; }",
            ["b.proto"] = "syntax = 'proto3'; package b; message B { int32 n = 1; }",
            ["loop.proto"] = "import 'loop.proto';",
        }
        local c = protoc.new()
        function c:unknown_import(name) return files[name] and self:parse(files[name], name) end
        c.include_imports = true
        say(c:load(files["a.proto"], "a.proto"))
        say(pb.tohex(pb.encode("a.A", { b = { n = 5 } })))
        say(c.loaded["b.proto"].package, c.loaded["a.proto"].dependency[1], c.typemap[".b.B"])
        say(pcall(c.parsefile, c, "loop.proto"))
        -- Well-known files need no path.
        local w = protoc.new()
        w:load [[import 'google/protobuf/timestamp.proto';
            message E { google.protobuf.Timestamp at = 1; }]]
        say(pb.tohex(pb.encode("E", { at = { seconds = 3 } })))
        w.unknown_type = "Foo"
        w:load("message F { FooBar a = 1; int32 b = 2; }")
        say(pb.tohex(pb.encode("F", { b = 1 })), (select(2, pb.field("F", "a"))))
        local services = p:parse([[syntax = "proto3"; package s; message M {}
            service S { rpc One (M) returns (M); rpc Many (stream M) returns (stream M); }]])
        local service = services.service[1]
        say(service.name, service.method[1].input_type, service.method[1].client_streaming,
            service.method[2].client_streaming, service.method[2].server_streaming)
        local info = p:parse("message G { repeated Inner a = 1; message Inner {} }")
        local field = info.message_type[1].field[1]
        say(field.label, field.type, field.type_name)
        -- Options of one's own are in the table by their names.
        local o = p:parse([[
            option (team) = "tea"; option (a.b).c = { x: 1 y { z: "}" } };
            message H {
                option (size) = -7;
                optional int32 a = 1 [(hidden) = true, default = 3, (rate) = 1.5];
                extensions 100; extend H { optional int32 b = 100 [(mode) = SLOW]; }
                enum J { option (k) = 1; }
            }
            enum I { X = 0 [(label) = 'x']; }
            service S { option (s) = 2; rpc A (H) returns (H) { option (path) = "/a"; } }
        ]], "options.proto")
        local h = o.message_type[1]
        say(o.options.team, o.options["a.b.c"], h.options.size)
        say(h.field[1].options.hidden, h.field[1].options.rate, h.field[1].default_value,
            h.field[1].options.default)
        say(h.extension[1].options.mode, h.enum_type[1].options.k,
            o.enum_type[1].value[1].options.label, o.service[1].options.s,
            o.service[1].method[1].options.path)
        -- The same by lua-protobuf's way through pb.
        local set = pb.encode(".google.protobuf.FileDescriptorSet", { file = { info } })
        say(pb.load(set), (pb.type "G.Inner"))
    "#,
    );
    assert!(lines[0].starts_with("true "), "{}", lines[0]);
    assert_eq!(lines[1], "0A 02 08 05");
    assert_eq!(lines[2], "b b.proto 11");
    assert_eq!(lines[3], "false loop loaded: loop.proto");
    assert_eq!(&lines[4..8], ["0A 02 08 03", "10 01 1", "S .s.M nil true true", "3 11 .G.Inner"]);
    let options = ["tea { x: 1 y { z: \"}\" } } -7", "true 1.5 3 nil", "SLOW 1 x 2 /a"];
    assert_eq!(&lines[8..11], options);
    assert!(lines[11].starts_with("true ") && lines[11].ends_with(" .G.Inner"), "{}", lines[11]);
}

#[test]
fn buffers_and_slices() {
    let lines = program(
        r#"
        local buffer, slice = require "pb.buffer", require "pb.slice"
        local conv, unsafe = require "pb.conv", require "pb.unsafe"
        local b = buffer.new()
        b:pack("v(vs)", 10, 8, "hi")
        say(#b, b:tohex(), b:result(1, 2) == "\10\4", b:tohex(-2))
        local minus_one = ("\xff"):rep(9) .. "\1"
        local expected = minus_one .. "\1\1" .. minus_one .. "\1\1"
        say(buffer.pack("ijuIJU", -1, -1, 1, -1, -1, 1) == expected)
        say(pb.tohex(buffer.pack("xyXYfFdqbt", 1, -1, 1, -1, 0.5, 0.5, 1, 1, true, "s")))
        local s = slice.new(b)
        say(#s, s:unpack "v", s:level())
        s:enter()
        local from, number, text, to = s:unpack "@vs@"
        say(from, number, text, to, #s)
        say(select(2, s:leave()), #s)
        say(slice.unpack("\1\2\3", "v*v+v", 1, 1))
        say(slice.unpack("\1", "vv"))
        say(pcall(slice.unpack, "\255", "v"))
        say(pcall(pb.pack, "(v", 1))
        local out = buffer("ab", "c")
        say(pb.encode("t.All", { e = 1 }, out) == out, out:result():sub(1, 3), #out)
        say(pb.decode("t.All", slice.new(out, 4)).e, pb.result(out:reset "xyz", 2, 2), #out:reset())
        say(conv.encode_sint32(-1), conv.decode_sint64(3),
            conv.decode_float(conv.encode_float(0.5)),
            conv.encode_uint32(-1), conv.decode_int32(4294967295))
        say(unsafe.decode("t.All", unsafe.touserdata(pb.encode("t.All", { e = 3 }))).e)
        say(pb.unpack("t.All.TEntry", pb.pack("t.All.TEntry", "key", 5)))
        say(pb.fromhex "00 fF zz 1" == "\0\xff")
        say(slice.unpack("\1\2", "v+v", math.maxinteger))
        say(pb.loadfile "/dev/zero")
    "#,
    );
    assert_eq!(
        lines,
        [
            "6 0A 04 08 02 68 69 true 68 69",
            "true",
            "01 00 00 00 FF FF FF FF 01 00 00 00 00 00 00 00 FF FF FF FF FF FF FF FF 00 00 00 3F \
             00 00 00 00 00 00 E0 3F 01 00 00 00 01 00 00 00 00 00 00 00 01 01 73",
            "6 10 1",
            "1 8 hi 5 0",
            "1 0",
            "1 1 3",
            "1 nil",
            "false invalid varint value at offset 1",
            "false bad argument #1 to 'pack' (unmatch '(' in format)",
            "true abc 5",
            "1 y 0",
            "1 -2 0.5 4294967295 -1",
            "3",
            "key 5",
            "true",
            "1 nil",
            "nil /dev/zero: not a regular file",
        ]
    );
}
