//! Programs that use `zproto`; the bytes are those of Silly.

use crate::testing::output;

const SCHEMA: &str = r#"
    local zproto = require "zproto"
    local proto = assert(zproto:parse [[
        # What stands for a comment.
        info 0xfd { .name:string 1 .age:float 6 .girl:boolean 9 }
        packet 0xfe {
            phone { .home:long 1 .work:integer 2 }
            .phone:phone 1
            .info:info[name] 2   # by name
            .luck:integer[] 4
            .blob:ubyte[] 9
            .small:short 0x10
            .flags:ubyte 17
        }
        empty {}
    ]])
    local function hex(data)
        return (data:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end))
    end
"#;

fn program(text: &str) -> Vec<String> {
    output(&format!("{SCHEMA}\n{text}\nrequire 'silly'.exit()"))
}

#[test]
fn tables_become_bytes_and_back() {
    let lines = program(
        r#"
        local data = proto:encode("packet", {
            phone = { home = 1, work = -2 }, luck = { 1, -3 }, blob = "hi",
        })
        say(hex(data))
        local t, size = proto:decode(0xfe, data .. "rest")
        say(t.phone.home, t.phone.work, #t.luck, t.luck[2], t.blob, t.info, t.small, size == #data)
        data = proto:encode(0xfe, {
            info = { lucy = { name = "lucy", age = 18.5, girl = false }, x = { name = "li" } },
            small = -1, flags = 511, luck = {}, phone = {},
        })
        t = proto:decode("packet", data)
        say(t.info.lucy.age, t.info.lucy.girl, t.info.li.name, t.info.x, t.small, t.flags)
        say(#t.luck, next(t.phone), hex(proto:encode("empty", {})))
        local _, more = proto:encode("info", { name = "a" }, true)
        say(more, proto:decode("info", proto:encode("info", { name = "ab" }), 17).name)
        -- A reader with an older schema takes what it knows.
        local old = zproto:parse "info { .name:string 1 }"
        t = old:decode("info", proto:encode("info", { name = "b", age = 1 }))
        say(t.name, t.age)
    "#,
    );
    assert_eq!(
        lines,
        [
            concat!(
                "30000000",
                "0300",
                "000002000400",
                "12000000",
                "0200",
                "00000000",
                "0100000000000000",
                "feffffff",
                "0200000001000000fdffffff",
                "020000006869"
            ),
            "1 -2 2 -3 hi nil nil true",
            "18.5 false li nil -1 255",
            "0 nil 020000000000",
            "13 ab",
            "b nil",
        ]
    );
}

#[test]
fn types_are_queried_and_have_defaults() {
    let lines = program(
        r#"
        say(proto:tag "packet", proto:tag "empty", proto:tag "none")
        for at, name in proto:travel "struct" do say(at, name) end
        for at, name in proto:travel("struct", "packet") do say(at, name) end
        for at, field in proto:travel("field", "packet") do
            say(at, field.name, field.tag, field.type, field.array, field.mapkey)
        end
        local t = proto:default "packet"
        say(t.phone.home, t.luck[1], next(t.info), t.blob == "", t.small)
        t = proto:default "info"
        say(t.name == "", t.age, t.girl)
    "#,
    );
    assert_eq!(
        lines,
        [
            "254 0 nil",
            "1 info",
            "2 packet",
            "3 empty",
            "1 phone",
            "1 phone 1 phone false nil",
            "2 info 2 info true name",
            "3 luck 4 int32 true nil",
            "4 blob 9 blob false nil",
            "5 small 16 short false nil",
            "6 flags 17 ubyte false nil",
            "0 nil nil true 0",
            "true 0.0 false",
        ]
    );
}

#[test]
fn zeros_are_packed() {
    let lines = program(
        r#"
        local packed = zproto:pack("\8\0\0\0\3\0\2\0")
        say(hex(packed), hex(zproto:unpack(packed)))
        say(hex(proto:unpack(proto:pack("12345678123"))), select(2, zproto:pack("ab", 1, true)))
        say(zproto:unpack("\xff12345678\3x"))
    "#,
    );
    assert_eq!(
        lines,
        [
            "51080302 0800000003000200",
            "31323334353637383132330000000000 2",
            "nil the data breaks off",
        ]
    );
}

#[test]
fn errors_name_what_is_wrong() {
    let lines = program(
        r#"
        for _, text in ipairs {
            "", "a", "a {", "a { x", "a { .b:c 1 }", "a { .b:string }", "a { .b:string 0 }",
            "a { .b:string 2 .c:string 2 }", "a { .b:string 1 .b:string 2 }",
            "a { .b:string 65536 }", "a { .b:string 0xzz }", "a {}\na {}", "a 5 {} b 5 {}",
            "a { .b:a 1 }", "a { .b:string[c] 1 }", "a {} b { .c:a[d] 1 }",
            "a { .x:string[] 1 } b { .c:a[x] 1 }", ("a"):rep(64) .. " {}", "a { \xff }",
        } do
            local schema, why = zproto:parse(text)
            assert(schema == nil)
            say(why)
        end
        say(zproto:load "none.zproto")
        say(zproto:load "/dev/zero")
        local deep = "a0 {}"
        for n = 1, 70 do deep = deep .. (" a%d { .b:a%d 1 }"):format(n, n - 1) end
        say(zproto:parse(deep))
        say(zproto:parse(("a { "):rep(70)))
        local function fails(...)
            local ok, why = pcall(...)
            assert(not ok)
            say((why:gsub("^.-:%d+: ", ""):match "^[^\n]*"))
        end
        fails(proto.encode, proto, "packets", {})
        fails(proto.encode, proto, 5, {})
        fails(proto.decode, proto, nil, "")
        fails(proto.encode, proto, "packet", { small = "1" })
        fails(proto.encode, proto, "packet", { small = 1.5 })
        fails(proto.encode, proto, "packet", { luck = 1 })
        fails(proto.encode, proto, "packet", { phone = false })
        fails(proto.encode, proto, "info", { girl = 1 })
        fails(proto.travel, proto, "fields")
        fails(proto.travel, proto)
        say(proto:decode("packet", "\5\0\0\0"))
        say(proto:decode("packet", "\10\0\0\0\1\0\3\0\xff\xff\xff\xff\1\0"))
        say(proto:decode("packet", "\18\0\0\0\1\0\1\0\1\0\0\0\6\0\0\0\0\0\0\0\0\0"))
        local wide = "a0 { .x:byte 1 }"
        for n = 1, 40 do
            wide = wide .. (" a%d { .b:a%d 1 .c:a%d 2 }"):format(n, n - 1, n - 1)
        end
        fails(zproto:parse(wide).default, zproto:parse(wide), "a40")
    "#,
    );
    let expected = [
        "line 1: a struct name expected, got the end of the text",
        "line 1: '{' expected, got the end of the text",
        "line 1: '}' expected, got the end of the text",
        "line 1: '{' expected, got the end of the text",
        "line 1: unknown type 'c': a struct is declared before it is used",
        "line 1: a tag expected, got '}'",
        "line 1: a tag is greater than 0",
        "line 1: the tag 2 is not greater than the one before, 2",
        "line 1: a field 'b' is declared already",
        "line 1: the tag 65536 is greater than 65535",
        "line 1: malformed number '0xzz'",
        "line 2: a struct 'a' is declared already",
        "line 1: a struct with the tag 5 is declared already",
        "line 1: unknown type 'a': a struct is declared before it is used",
        "line 1: only structs can be in a map by a field, here 'c'",
        "line 1: struct 'a' has no field 'd'",
        "line 1: field 'x' of 'a' cannot be the key of a map",
        "line 1: a name may have 63 letters",
        "line 1: '}' expected, got '\\xff'",
        "nil none.zproto: No such file or directory (os error 2)",
        "nil /dev/zero: not a regular file",
        "nil line 1: 'a64' has more than 64 structs within each other",
        "nil line 1: more than 64 structs within each other",
        "bad argument #1 to 'encode' (no struct 'packets'; the schema has info, packet, empty)",
        "bad argument #1 to 'encode' (no struct with the tag 5; the schema has info, packet, \
         empty)",
        "bad argument #1 to 'decode' (name or tag of a struct expected, got nil)",
        "'small': integer expected, got string",
        "'small': integer expected, got number",
        "'luck': table expected, got integer",
        "'phone': table expected, got boolean",
        "'girl': boolean expected, got integer",
        "bad argument #1 to 'travel' (invalid option 'fields': field, struct)",
        "bad argument #2 to 'travel' (name or tag of a struct expected)",
        "nil -3 the data breaks off",
        "nil -3 the data breaks off",
        "nil -3 an element of 'info' has no 'name'",
        "the default has more than 10000 structs",
    ];
    assert_eq!(lines, expected);
}
