//! `zproto` of Lua: any text is a schema or an error; what is decoded is encoded to what is decoded
//! alike; what is packed is unpacked.

use crate::{FuzzTarget, owned};
use lua_std::{VmContext, open_vm};
use lua_vm::{Vm, VmOptions};
use mlua::Function;
use std::rc::Rc;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check,
    seeds: || owned(SEEDS),
    dictionary: &[
        " {",
        "}",
        ".a:",
        "integer",
        "string[]",
        "x[name]",
        "# ",
        " 1",
        " 0x",
        "\n",
        "\u{1}\0\0\0",
        "\u{6}\0\0\0\0\0",
    ],
    cases: 3000,
};

const SEEDS: &[&[u8]] = &[
    b"x 0xfd { .name:string 1 .age:float 6 }\ny { z { .a:long 1 } .z:z[] 1 .x:x[name] 2 } # end",
    b"a { .i1:byte 1 .i2:short 2 .i3:int32 3 .i4:uint64 4 .b:ubyte[] 5 .s:byte[] 0x10 }",
    b"\x05\0\0\0\x01\0\0\0\x01",
    b"\x14\0\0\0\x02\0\0\0\0\0\x07\0\0\0\x02\0\0\0hi\x01\x02\x03",
    b"\x1b\0\0\0\x01\0\x08\0\x01\0\0\0\x0f\0\0\0\x02\0\0\0\0\0\x01\0\0\0a\0\0\0\0",
    b"\xff12345678\x0112345678\x51\x08\x03\x02",
];

const PROGRAM: &str = r#"
local zproto = require "zproto"
local proto = assert(zproto:parse [[
    item { .name:string 1 .age:float 2 .on:boolean 3 }
    all {
        in { .a:byte 1 .b:ushort 2 .c:integer 3 .d:long 4 }
        .a:ubyte 1 .b:short 2 .c:uinteger 3 .d:ulong 4 .e:float 5 .f:boolean 6 .g:string 7
        .h:blob 8 .i:item[name] 9 .j:in[] 10 .k:in 11 .l:string[] 20 .m:float[] 30
    }
]])
return function(data)
    zproto:parse(data)
    local padded = data .. ("\0"):rep(-#data % 8)
    assert(zproto:unpack(zproto:pack(data)) == padded, "unpacked")
    zproto:unpack(data)
    local found, size = proto:decode("all", data)
    if not found then return end
    assert(size <= #data, "size")
    local written = proto:encode("all", found)
    local again, length = proto:decode("all", written)
    assert(again and length == #written, "decoded again")
    assert(#proto:encode("all", again) == #written, "encoded again")
end
"#;

struct Program {
    /// Keeps the state alive that the function lives in.
    vm: Rc<Vm>,
    check: Function,
}

thread_local! {
    static PROGRAMS: Program = {
        let vm = open_vm(VmOptions::default(), VmContext::default()).expect("a VM");
        let check = vm.lua().load(PROGRAM).eval().expect("the program compiles");
        Program { vm, check }
    };
}

fn check(data: &[u8]) {
    PROGRAMS.with(|program| {
        let text = program.vm.lua().create_string(data).expect("memory");
        let checked: mlua::Result<()> = program.check.call(text);
        checked.unwrap_or_else(|error| panic!("{error}: {data:02x?}"));
    });
}
