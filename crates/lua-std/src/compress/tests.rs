//! Every family does the same with the same data; each reads what other programs wrote.

use mlua::Lua;

type Open = fn(&Lua) -> mlua::Result<mlua::Table>;

const FAMILIES: [(&str, Open); 5] = [
    ("gzip", super::open_gzip),
    ("br", super::open_br),
    ("zstd", super::open_zstd),
    ("lz4", super::open_lz4),
    ("snappy", super::open_snappy),
];

fn lua() -> Lua {
    let lua = Lua::new();
    for (name, open) in FAMILIES {
        lua.globals().set(name, open(&lua).unwrap()).unwrap();
    }
    lua.load("families = {gzip = gzip, br = br, zstd = zstd, lz4 = lz4, snappy = snappy}")
        .exec()
        .unwrap();
    lua.load(
        r#"
        function bytes(text) return (text:gsub("%x%x", function(b)
            return string.char(tonumber(b, 16)) end)) end
        function packed(name, data, size)
            local stream, out = families[name].compressor(), {}
            for at = 1, #data, size do
                out[#out + 1] = stream:write(data:sub(at, at + size - 1))
                if at % 3 == 0 then out[#out + 1] = stream:flush() end
            end
            out[#out + 1] = stream:finish()
            return table.concat(out)
        end
        function unpacked(name, data, size, limit)
            local stream, out = families[name].decompressor(limit), {}
            for at = 1, #data, size do
                local piece, reason = stream:write(data:sub(at, at + size - 1))
                if not piece then return nil, reason end
                out[#out + 1] = piece
            end
            local piece, reason = stream:finish()
            if not piece then return nil, reason end
            return table.concat(out) .. piece
        end"#,
    )
    .exec()
    .unwrap();
    lua
}

fn holds(code: &str) {
    lua().load(code).exec().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn whole_strings_there_and_back() {
    holds(
        r#"
        local random = {}
        for i = 1, 70000 do random[i] = string.char(math.random(0, 255)) end
        local texts = {"", "a", string.rep("hello, ", 30000), table.concat(random)}
        for name, family in pairs(families) do
            for _, text in ipairs(texts) do
                local small = family.compress(text)
                assert(family.decompress(small) == text, name)
                assert(#text < 1000 or #small < #text + 1000, name)
            end
            assert(#family.compress(texts[3]) < 20000, name)
        end
        for _, name in ipairs {"gzip", "br", "zstd"} do
            local fast = families[name].compress(texts[3], 1)
            local best = families[name].compress(texts[3], 9)
            assert(#best <= #fast and families[name].decompress(fast) == texts[3])
        end"#,
    );
}

#[test]
fn streams_in_pieces_of_any_size() {
    holds(
        r#"
        local words = {}
        for i = 1, 3000 do words[i] = "word " .. i * i % 977 end
        local text = table.concat(words, "\n")
        for name in pairs(families) do
            for _, size in ipairs {7, 1000, 100000} do
                local small = packed(name, text, size)
                assert(unpacked(name, small, size) == text, name .. " " .. size)
                assert(unpacked(name, small, 1) == text, name)
            end
            assert(unpacked(name, packed(name, "", 1), 1) == "", name)
        end"#,
    );
}

/// A flush makes everything so far readable.
#[test]
fn a_flush_can_be_read() {
    holds(
        r#"
        for name, family in pairs(families) do
            local pack, unpack = family.compressor(), family.decompressor()
            for i = 1, 5 do
                local line = "line " .. i .. "\n"
                local got = assert(unpack:write(pack:write(line) .. pack:flush()))
                assert(got == line, name)
            end
            assert(unpack:write(pack:finish()) == "" and unpack:finish() == "", name)
        end"#,
    );
}

#[test]
fn nothing_unpacks_past_its_limit() {
    holds(
        r#"
        local text = string.rep("0", 10 * 2^20)
        for name, family in pairs(families) do
            local small = family.compress(text)
            assert(family.decompress(small, #text) == text, name)
            local value, reason = family.decompress(small, #text - 1)
            assert(value == nil and reason == "the unpacked data is larger than allowed", name)
            value, reason = unpacked(name, packed(name, text, 65536), 4096, 100000)
            assert(value == nil and reason == "the unpacked data is larger than allowed", name)
        end"#,
    );
}

#[test]
fn damage_is_reported() {
    holds(
        r#"
        local text = string.rep("some text ", 1000)
        for name, family in pairs(families) do
            local small = family.compress(text)
            local value, reason = family.decompress(small:sub(1, -3))
            assert(value == nil and type(reason) == "string", name)
            value, reason = family.decompress("this is not packed at all")
            assert(value == nil and type(reason) == "string", name)
            value, reason = unpacked(name, packed(name, text, 100):sub(1, -3), 50)
            assert(value == nil and reason == "the packed data ends too early", name .. reason)
            -- and stays so
            local stream = family.decompressor()
            stream:write("this is not packed at all")
            stream:finish()
            assert(stream:write("x") == nil and stream:finish() == nil, name)
            -- whatever is damaged, each call returns
            for _ = 1, 200 do
                local at = math.random(#small)
                local other = string.char(small:byte(at) ~ (1 << math.random(0, 7)))
                family.decompress(small:sub(1, at - 1) .. other .. small:sub(at + 1))
                unpacked(name, small:sub(1, at - 1) .. other .. small:sub(at + 1), 33)
            end
        end"#,
    );
}

#[test]
fn data_of_other_programs() {
    holds(
        r#"
        -- printf 'hello hello hello hello' | gzip -9n, zstd, lz4 of standard input and of a file
        local made = {
            {"gzip", "1f8b0800000000000203cb48cdc9c957c8402701e3513d8d17000000"},
            {"zstd", "28b52ffd04586500003068656c6c6f200100994b11175eae0d"},
            {"lz4", "04224d186440a70f0000006868656c6c6f2006005068656c6c6f00000000f26b940b"},
            {"lz4", "04224d187c401700000000000000f00f0000006868656c6c6f20" ..
                "06005068656c6c6fa90f8a3700000000f26b940b"},
        }
        for _, one in ipairs(made) do
            local text = bytes(one[2])
            assert(families[one[1]].decompress(text) == "hello hello hello hello", one[1])
            assert(unpacked(one[1], text .. text, 5) == string.rep("hello hello hello hello", 2))
        end
        -- the examples of the formats' own documents
        assert(snappy.decompress(bytes("0b0048656c6c6f20776f726c64" .. "")) == nil)
        assert(snappy.decompress("\11\40Hello world") == "Hello world")
        assert(br.decompress(bytes("0b028068656c6c6f03")) == "hello")
        assert(lz4.decompress(bytes("04224d186440810500008068656c6c6f00000000")) == nil)"#,
    );
}

#[test]
fn mistaken_arguments_are_named() {
    let lua = lua();
    let error = |code: &str| lua_vm::errors::text(&lua.load(code).exec().unwrap_err());
    assert!(error("gzip.compress()").starts_with("bad argument #1 to 'compress' (string expected"));
    assert_eq!(
        error("gzip.compress('', 10)"),
        "bad argument #2 to 'compress' (a level from 1 to 9 expected, got 10)"
    );
    assert_eq!(
        error("br.compressor(12)"),
        "bad argument #1 to 'compressor' (a level from 0 to 11 expected, got 12)"
    );
    assert_eq!(
        error("lz4.decompress('', -1)"),
        "bad argument #2 to 'decompress' (a number of bytes expected, got -1)"
    );
    let twice = "local s = zstd.compressor() s:finish() s:write('x')";
    assert_eq!(error(twice), "'write' after 'finish'");
}
