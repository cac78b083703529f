//! How fast `encoding.json` is compared with lua-cjson: `cargo run --profile quick -p lua-std
//! --example json_speed [ROUNDS]`.
//!
//! Both run the same loop over the same documents, ours in this process, lua-cjson in Debian's
//! `lua5.4`, in turns; the best of the rounds counts. `json_speed one DOCUMENT decode|encode TIMES`
//! runs ours alone, to be counted by callgrind.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use lua_std::{VmContext, open_vm};
use lua_vm::VmOptions;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the documents with the module itself, the same ones on every run.
const DOCUMENTS: &str = r##"
local json, directory = ...
math.randomseed(7, 7)
local words = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota"}
local function word() return words[math.random(#words)] end
local function list(n, make)
    local all = {}
    for i = 1, n do all[i] = make(i) end
    return all
end
local function record(i)
    return {id = i, guid = string.format("%08x-%04x", math.random(2^31), i), note = json.null,
        active = math.random() < 0.5, balance = math.random(500000) / 100, name = word(),
        age = math.random(20, 60), email = word() .. "@example.com", tags = list(4, word),
        address = {street = i .. " Main St", city = word(), zip = math.random(10000, 99999)}}
end
local function deep(n) return n == 0 and {} or {level = n, next = deep(n - 1), list = {{n}}} end
local odd = {'"quoted"', "line\nbreak", "tab\there", "back\\slash", "grüße", "日本語", "/path"}
local function text()
    return table.concat(list(math.random(3, 60), function(i)
        return i % 2 == 0 and odd[math.random(#odd)] or word()
    end), " ")
end
local documents = {
    small = {jsonrpc = "2.0", method = "user.get", id = "abc-1",
        params = {id = 42, fields = {"name", "email"}}},
    records = list(200, record),
    numbers = list(2000, function()
        return {math.random(-180, 180) / 7, math.random(-10^6, 10^6), math.random()}
    end),
    deep = list(20, function() return deep(60) end),
    strings = list(400, text),
}
local function write(name, content)
    local file = assert(io.open(directory .. "/" .. name .. ".json", "wb"))
    file:write(content)
    file:close()
end
for name, value in pairs(documents) do write(name, assert(json.encode(value))) end
-- The same texts as other encoders write them: all that is not ASCII as \u.
write("escapes", (json.encode(documents.strings):gsub(utf8.charpattern, function(letter)
    return #letter > 1 and string.format("\\u%04x", utf8.codepoint(letter)) or nil
end)))
"##;

/// The loop that both sides run; returns seconds of CPU.
const LOOP: &str = r#"
local json, path, operation, times = ...
local file = assert(io.open(path, "rb"))
local text = file:read("a")
file:close()
local call, argument = json[operation], operation == "decode" and text or json.decode(text)
local before = os.clock()
for _ = 1, times do call(argument) end
return os.clock() - before
"#;

const NAMES: [&str; 6] = ["small", "records", "numbers", "deep", "strings", "escapes"];
/// The approximate number of bytes of one measurement.
const BYTES_PER_MEASUREMENT: u64 = 40_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = std::env::temp_dir().join(format!("json_speed-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let done = run(&arguments, &folder);
    std::fs::remove_dir_all(&folder)?;
    done
}

fn run(arguments: &[String], folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let vm = open_vm(VmOptions::default(), VmContext::default())?;
    let json: mlua::Table = vm.lua().load("return require 'tide.encoding.json'").eval()?;
    vm.lua().load(DOCUMENTS).call::<()>((&json, folder.to_string_lossy()))?;
    let call: mlua::Function = vm.lua().load(LOOP).into_function()?;
    let ours = |path: &Path, operation: &str, times: u64| -> mlua::Result<f64> {
        call.call((&json, path.to_string_lossy(), operation, times))
    };
    if let [one, name, operation, times] = arguments
        && one == "one"
    {
        ours(&document(folder, name), operation, times.parse()?)?;
        return Ok(());
    }
    let rounds = arguments.first().map_or(Ok(3), |rounds| rounds.parse())?;
    let mut all = Vec::new();
    for operation in ["decode", "encode"] {
        for name in NAMES {
            let path = document(folder, name);
            let bytes = std::fs::metadata(&path)?.len();
            let times = (BYTES_PER_MEASUREMENT / bytes.max(500)).max(1);
            let (mut best, mut theirs) = (f64::MAX, f64::MAX);
            for _ in 0..rounds {
                best = best.min(ours(&path, operation, times)?);
                theirs = theirs.min(cjson(folder, &path, operation, times)?);
            }
            let rate = |seconds: f64| (bytes * times) as f64 / seconds / 1e6;
            let ratio = theirs / best;
            println!(
                "{operation} {name:8} ours {:6.0} MB/s  lua-cjson {:6.0} MB/s  {ratio:5.2} times",
                rate(best),
                rate(theirs)
            );
            all.push(ratio);
        }
    }
    let mean = (all.iter().map(|ratio| ratio.ln()).sum::<f64>() / all.len() as f64).exp();
    let least = all.into_iter().fold(f64::MAX, f64::min);
    println!("geometric mean {mean:.2} times, least {least:.2} times");
    Ok(())
}

fn document(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.json"))
}

/// The loop in a process of Debian's Lua.
fn cjson(
    folder: &Path,
    path: &Path,
    operation: &str,
    times: u64,
) -> Result<f64, Box<dyn std::error::Error>> {
    let script = folder.join("loop.lua");
    let times =
        format!("print((function(...) {LOOP} end)(require 'cjson', arg[1], arg[2], {times}))");
    std::fs::write(&script, times)?;
    let output = Command::new("lua5.4").arg(&script).arg(path).arg(operation).output();
    let output =
        output.map_err(|error| format!("lua5.4 (apt install lua5.4 lua-cjson): {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}
