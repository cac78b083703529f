//! Regular expressions, from a script's side.

use mlua::Lua;

fn lua() -> Lua {
    let lua = Lua::new();
    lua.globals().set("re", super::open(&lua).unwrap()).unwrap();
    lua
}

#[track_caller]
fn holds(code: &str) {
    lua().load(code).exec().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn matching_and_finding() {
    holds(
        r##"
        assert(re.match("key = value", "(\\w+)\\s*=\\s*(\\w+)") == "key")
        assert(select(2, re.match("key = value", "(\\w+)\\s*=\\s*(\\w+)")) == "value")
        assert(re.match("abc 123", "\\d+") == "123" and re.match("abc", "\\d+") == nil)
        local first, last, word = re.find("hello world", "o (w)")
        assert(first == 5 and last == 7 and word == "w")
        assert(select("#", re.find("hello", "l+")) == 2)
        -- a group that took no part
        local a, b = re.match("x", "(x)|(y)")
        assert(a == "x" and b == nil and select("#", re.match("x", "(x)|(y)")) == 2)
        -- where to begin, as string.find counts
        assert(re.match("a1b2", "\\d", 3) == "2" and re.match("a1b2", "\\d", -1) == "2")
        assert(re.match("a1b2", "\\d", 0) == "1" and re.match("a1b2", "\\d", -100) == "1")
        assert(re.match("ab", "^b", 2) == nil and re.match("ab", "$", 3) == "")
        assert(re.match("ab", "", 4) == nil)
        -- bytes, and characters
        assert(re.match("größe", "^.{5}$") and re.match("\xff\0x", "(?-u:\\xff)\0x"))
        assert(re.match("ÄRGER", "(?i)ärger") and re.match("日本", "^\\p{L}+$"))"##,
    );
}

#[test]
fn captures_by_name() {
    holds(
        r##"
        local c = re.captures("2026-11-20", "(?<year>\\d+)-(?<month>\\d+)(-(?<day>\\d+))?(x)?")
        assert(c[0] == "2026-11-20" and c.year == "2026" and c.month == "11" and c.day == "20")
        assert(c[1] == "2026" and c[3] == "-20" and c[5] == nil)
        assert(re.captures("x", "y") == nil)"##,
    );
}

#[test]
fn all_matches() {
    holds(
        r##"
        local function all(s, p)
            local found = {}
            for a, b in re.gmatch(s, p) do found[#found + 1] = b and a .. "=" .. b or a end
            return table.concat(found, "|")
        end
        assert(all("one two three", "\\w+") == "one|two|three")
        assert(all("a=1, b=2", "(\\w)=(\\w)") == "a=1|b=2")
        assert(all("abc", "") == "|||" and all("", "") == "" and all("aab", "a*") == "aa|")
        assert(all("größe", "\\w") == "g|r|ö|ß|e")
        assert(table.concat(re.split("a, b,c", ",\\s*"), "|") == "a|b|c")
        assert(table.concat(re.split("a b c", " ", 2), "|") == "a|b c")
        assert(#re.split("", ",") == 1)"##,
    );
}

#[test]
fn replacing() {
    holds(
        r##"
        local s, n = re.gsub("hello world", "(\\w+) (?<last>\\w+)", "${last} $1 $$1")
        assert(s == "world hello $1" and n == 1)
        assert(re.gsub("a.b.c", "\\.", "") == "abc")
        assert(re.gsub("abc", "b", 7) == "a7c")
        s, n = re.gsub("aaaa", "a", "b", 2)
        assert(s == "bbaa" and n == 2 and re.gsub("aaaa", "a", "b", 0) == "aaaa")
        assert(re.gsub("$name is $age", "\\$(\\w+)", {name = "Ada", age = 36}) == "Ada is 36")
        assert(re.gsub("$name", "\\$(\\w+)", {}) == "$name")
        assert(re.gsub("1 2 3", "\\d", function(d) return d ~= "2" and d * 2 end) == "2 2 6")
        assert(re.gsub("abc", "", "-") == "-a-b-c-")
        assert(re.gsub("a+b", re.escape("+"), "-") == "a-b")
        assert(not pcall(re.gsub, "a", "a", function() return {} end))
        local ok, reason = pcall(re.gsub, "a", "a", function() error("mine") end)
        assert(not ok and tostring(reason):find("mine"))"##,
    );
}

#[test]
fn compiled_patterns() {
    holds(
        r##"
        local p = assert(re.compile("(\\d+)"))
        assert(p:match("a12") == "12" and p:find("a12") == 2 and p:captures("a12")[1] == "12")
        assert(p:gsub("1 2", "<$1>") == "<1> <2>" and p:gmatch("7")() == "7")
        assert(#p:split("a1b2c") == 3 and re.match("x9", p) == "9")
        local value, reason = re.compile("(")
        assert(value == nil and reason == "unclosed group", reason)
        value, reason = re.compile("\\w{5000}{50}")
        assert(value == nil and reason:find("compiles to more than"), reason)
        value, reason = re.compile(("a"):rep(20000))
        assert(value == nil and reason:find("longer than"), reason)
        assert(re.compile("(a)\\1") == nil and re.compile("\xff") == nil)
        -- more patterns than are kept
        for round = 1, 2 do
            for i = 1, 200 do assert(re.match("n" .. i, "n(" .. i .. ")$") == tostring(i)) end
        end"##,
    );
    let lua = lua();
    let error = |code: &str| lua_vm::errors::text(&lua.load(code).exec().unwrap_err());
    assert_eq!(error("re.match('', '[')"), "bad argument #2 to 'match' (unclosed character class)");
    assert!(error("re.find('', {})").starts_with("bad argument #2 to 'find' (pattern expected"));
    let wrong = "bad argument #3 to 'gsub' (string, table or function expected, got nil)";
    assert_eq!(error("re.gsub('', '')"), wrong);
}

/// The classic case of exponential backtracking, which takes microseconds here.
#[test]
fn hostile_patterns_stay_linear() {
    holds(
        r##"
        local text = ("a"):rep(50000)
        assert(re.match(text .. "!", "^(a+)+$") == nil)
        assert(re.match(text, "^(a|a)*b") == nil)
        assert(re.match(text, "(.*)(.*)(.*)(.*)(.*)x") == nil)"##,
    );
}
