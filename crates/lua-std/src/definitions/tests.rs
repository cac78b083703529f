//! The declared names against the modules as they are loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{SOURCE, files, forms, name_of, parse};
use crate::MODULES;
use crate::testing::run_example;

/// What the source says of each module: the names of its fields and functions.
fn declared() -> BTreeMap<String, BTreeSet<String>> {
    let modules = parse(SOURCE);
    let names = |name: &str| {
        let module = &modules[name];
        let fields = module.module.fields.iter().map(|(name, ..)| *name);
        let functions = module.module.functions.iter().map(|function| function.name);
        let functions = functions.map(|name| name.trim_start_matches(':'));
        let methods = forms(module, &modules).into_iter().map(|function| &function.name[1..]);
        let all = fields.chain(functions).chain(methods).filter(|name| *name != "__call");
        all.map(str::to_owned).collect()
    };
    MODULES.iter().map(|(name, ..)| (name_of(name).to_owned(), names(name_of(name)))).collect()
}

/// The names of the modules as a program has them.
#[test]
fn modules_have_exactly_the_names_that_are_declared() {
    let list: Vec<String> = MODULES.iter().map(|(name, ..)| format!("{name:?}")).collect();
    let program = format!(
        r#"for _, name in ipairs {{ {} }} do
            local module, names = require(name == "" and "silly" or "silly." .. name), {{}}
            for key in pairs(module) do
                if key ~= "__index" then names[#names + 1] = tostring(key) end
            end
            local callable = (getmetatable(module) or {{}}).__call ~= nil
            say(name == "" and "silly" or name, callable, table.concat(names, " "))
        end"#,
        list.join(", ")
    );
    let (code, lines) = run_example(&program);
    assert_eq!((code, lines.len()), (0, MODULES.len()), "{lines:?}");
    let modules = parse(SOURCE);
    let declared = declared();
    for line in lines {
        let (name, rest) = line.split_once(' ').unwrap();
        let (callable, names) = rest.split_once(' ').unwrap();
        let found: BTreeSet<String> = names.split_whitespace().map(str::to_owned).collect();
        assert_eq!(found, declared[name], "{name}");
        let calls = modules[name].module.functions.iter().any(|function| function.name == "__call");
        assert_eq!(calls, callable == "true", "{name} is called as a function");
    }
}

/// Objects that a program can make without a peer, and the classes that describe them.
const OBJECTS: &[(&str, &str, &str)] = &[
    ("adt.buffer", "Buffer", "require 'silly.adt.buffer'.new()"),
    ("adt.list", "List", "require 'silly.adt.list'.new()"),
    ("adt.queue", "Queue", "require 'silly.adt.queue'.new()"),
    ("sync.channel", "Channel", "require 'silly.sync.channel'.new()"),
    ("sync.mutex", "Mutex", "require 'silly.sync.mutex'.new()"),
    ("sync.waitgroup", "Group", "require 'silly.sync.waitgroup'.new()"),
    ("sync.singleflight", "Group", "require 'silly.sync.singleflight'.new(print)"),
    ("pool", "Pool", "require 'silly.pool'.new { open = print }"),
    ("store.etcd", "Client", "require 'silly.store.etcd'.newclient { endpoints = { 'a' } }"),
    ("store.mysql", "Pool", "require 'silly.store.mysql'.open {}"),
    ("store.postgres", "Pool", "require 'silly.store.postgres'.open { user = 'a' }"),
    ("compress.br", "Compressor", "require 'silly.compress.br'.compressor()"),
    ("compress.br", "Decompressor", "require 'silly.compress.br'.decompressor()"),
    ("crypto.hash", "Hash", "require 'silly.crypto.hash'.new 'sha256'"),
    ("encoding.json", "Decoder", "require 'silly.encoding.json'.decoder()"),
    ("net.udp", "Socket", "require 'silly.net.udp'.bind '127.0.0.1:0'"),
    ("patch", "Patch", "require 'silly.patch'.new()"),
    ("net.http.dom", "Node", "require 'silly.net.http.dom'.parse '<p>'"),
    ("net.http", "Client", "require 'silly.net.http'.newclient()"),
    ("net.grpc", "Conn", "require 'silly.net.grpc'.newclient { targets = { 'a:1' } }"),
    ("net.grpc.registrar", "Registrar", "require 'silly.net.grpc.registrar'.new()"),
    ("pb.buffer", "Buffer", "require 'silly.pb.buffer'.new()"),
    ("pb.slice", "Slice", "require 'silly.pb.slice'.new()"),
    ("profiler", "Profile", "require 'silly.profiler'.allocations(1)"),
    ("protoc", "Compiler", "require 'silly.protoc'.new()"),
    ("zproto", "Protocol", "require 'silly.zproto':parse 'a {}'"),
    // From here on the VM has no other network.
    ("test", "Network", "require 'silly.test'.network()"),
    ("test", "Relay", "require 'silly.test'.network():relay('127.0.0.1:0', '127.0.0.1:1')"),
];

#[test]
fn objects_have_the_declared_methods() {
    let modules = parse(SOURCE);
    let mut program = String::new();
    for (module, class, object) in OBJECTS {
        let class = modules[module].classes.iter().find(|found| found.name == *class).unwrap();
        for method in &class.functions {
            let name = &method.name[1..];
            program.push_str(&format!(
                "if type(({object})[{name:?}]) ~= 'function' then say({module:?}, {name:?}) end\n"
            ));
        }
    }
    let (code, missing) = run_example(&program);
    assert_eq!((code, missing), (0, Vec::new()));
}

#[test]
fn every_line_of_the_source_is_used() {
    let modules = parse(SOURCE);
    let known: BTreeSet<&str> = MODULES.iter().map(|(name, ..)| name_of(name)).collect();
    let of_source: BTreeSet<&str> = modules.keys().copied().collect();
    assert_eq!(of_source, known);
    let all: String = files().into_iter().map(|(_, text)| text).collect();
    let builtin = ["any", "string", "number", "integer", "boolean", "table", "function", "thread"];
    for (name, module) in &modules {
        for class in std::iter::once(&module.module).chain(&module.classes) {
            for function in &class.functions {
                let kinds = function.parameters.iter().map(|(_, kind)| *kind);
                for kind in kinds.chain(function.results.iter().copied()) {
                    let words =
                        kind.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_'));
                    for word in words.map(|word| word.trim_matches('.')) {
                        let is_name =
                            word.is_empty() || builtin.contains(&word) || kind.contains("fun(");
                        let is_class = module.classes.iter().any(|class| class.name == word)
                            || all.contains(&format!("---@class {word}\n"));
                        assert!(is_name || is_class, "{name}: {word} in {kind}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_file_is_what_the_language_server_reads() {
    let files: BTreeMap<String, String> = files().into_iter().collect();
    assert_eq!(files["core/tcp.lua"], "---@meta core.tcp\n\nreturn require \"silly.net.tcp\"\n");
    assert!(files.contains_key("tide.lua") && files.contains_key("tide/net/http/helper.lua"));
    let tcp = &files["silly/net/tcp.lua"];
    for part in [
        "---@meta silly.net.tcp\n",
        "---@class silly.net.tcp.Conn\n---@field remoteaddr string\nlocal Conn = {}\n",
        "---@param addr string|silly.net.tcp.ListenOptions\n\
         ---@param accept? fun(conn: silly.net.tcp.Conn, addr: string)\n\
         ---@param backlog? integer\n---@return silly.net.tcp.Listener?\n---@return string?\n\
         function M.listen(addr, accept, backlog) end\n",
        "function Conn:read(what, ms) end\n",
        "---@param object silly.net.tcp.Conn\n---@param what integer|string\n",
        "function M.read(object, what, ms) end\n",
    ] {
        assert!(tcp.contains(part), "{part}\n{tcp}");
    }
    assert!(files["silly/signal.lua"].contains(
        "---@overload fun(name: string, fn?: fun(name: string)): function?\nlocal M = {}\n"
    ));
    // Lua itself reads all of it.
    let load: String =
        files.values().map(|text| format!("assert(load([==[{text}]==]))\n")).collect();
    assert_eq!(run_example(&load).0, 0);
}

/// The files of the repository are those that `make generate` writes.
#[test]
fn the_generated_files_are_in_the_reference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/lua-types");
    for (path, text) in files() {
        let found = fs::read_to_string(folder.join(&path)).unwrap_or_default();
        assert!(found == text, "docs/reference/lua-types/{path} is stale: make generate");
    }
}
