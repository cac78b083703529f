//! Which crate may import which: levels of our crates, and one owner for each foreign library.
//!
//! Read from `cargo metadata`, so a dependency counts wherever it is declared: for building, for
//! tests, for one target or behind a feature.

use crate::tidy::visit;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate imports only crates of a lower level, and none of its own level.
const LEVELS: &[(&str, u8)] = &[
    ("wire", 0),
    ("settings-derive", 0),
    ("claimed-port", 0),
    ("coding", 0),
    ("protobuf", 0),
    ("settings", 1),
    ("telemetry", 1),
    ("net", 1),
    ("message", 2),
    ("tls-settings", 2),
    ("store", 2),
    ("plugin", 3),
    ("http-client", 4),
    ("offload", 4),
    ("etcd", 5),
    ("redis", 5),
    ("http-server", 5),
    ("router", 6),
    ("upstream", 6),
    ("otlp", 6),
    ("filters", 6),
    ("grpc", 6),
    ("traffic", 6),
    ("json-filters", 6),
    ("waf", 6),
    ("auth", 6),
    ("example-filter", 6),
    ("files", 6),
    ("lua-vm", 6),
    ("acme", 6),
    ("cache", 6),
    ("apps", 6),
    ("python", 6),
    // Reads JSON with `json-filters`.
    ("ai", 7),
    ("import", 7),
    ("lua-std", 7),
    ("streams", 7),
    ("lua-host", 8),
    ("config", 9),
    ("admin", 10),
    // Calls the parsers of all crates below.
    ("fuzz-targets", 10),
    ("server", 11),
    ("tidegate", 12),
    // The wheel: the binary with Python inside.
    ("wheel", 13),
];

/// Import none of our crates, and none of ours imports them, except those in `ENTRY_POINTS` and
/// `OUTSIDE_IMPORTS`.
const OUTSIDE: &[&str] = &["architecture", "bench", "scenarios"];
/// Imports of a crate that stands outside: the binary has a command for it.
const ENTRY_POINTS: &[(&str, &str)] = &[("tidegate", "bench")];

/// What a crate that stands outside imports: the load generator and the scripted upstream have
/// HTTP/2 from `wire`, whose errors are seen with other servers and clients, h2spec and h2load.
/// Both start servers, and must not take ports from each other.
const OUTSIDE_IMPORTS: &[(&str, &str)] = &[
    ("bench", "claimed-port"),
    ("bench", "wire"),
    ("scenarios", "claimed-port"),
    ("scenarios", "wire"),
];

/// Foreign libraries with an owner. One that is not named here is free to all.
const OWNERS: &[(&str, &[&str])] = &[
    ("async-std", &[]),
    // What rustls calls: also for session tickets and fingerprints; signatures of tokens.
    // Hashes of passwords.
    ("argon2", &["auth"]),
    ("aws-lc-rs", &["net", "auth"]),
    ("bcrypt", &["auth"]),
    ("brotli", &["coding"]),
    // Compiles what Rust cannot define; Lua is built with it too.
    ("cc", &["lua-vm"]),
    ("clap", &["tidegate"]),
    ("clap_complete", &["tidegate"]),
    // These share no code with ours and read what servers compressed.
    ("flate2", &["coding", "bench", "scenarios"]),
    ("h2", &[]),
    ("hickory-resolver", &["net"]),
    // The types of instant-acme's client trait.
    ("http", &["acme"]),
    ("httparse", &["fuzz-targets"]),
    ("hyper", &[]),
    ("instant-acme", &["acme"]),
    // The configuration files of the server; the directories that Lua programs watch.
    ("inotify", &["server", "lua-std"]),
    ("libc", &["net", "lua-vm", "lua-std", "lua-host", "python", "server", "tidegate", "bench"]),
    ("libmimalloc-sys", &["net"]),
    // The countries of clients.
    ("maxminddb", &["auth"]),
    ("memmap2", &["net"]),
    ("loom", &["scenarios"]),
    ("mio", &[]),
    ("mlua", &["lua-vm", "lua-std", "lua-host", "fuzz-targets"]),
    ("native-tls", &[]),
    ("openssl", &[]),
    ("proptest", &["fuzz-targets"]),
    ("prost", &["etcd", "fuzz-targets", "otlp"]),
    // Messages by their descriptors.
    ("prost-reflect", &["fuzz-targets", "grpc"]),
    ("proc-macro2", &["settings-derive"]),
    ("pyo3", &["python", "wheel"]),
    ("pyo3-build-config", &["wheel"]),
    ("quote", &["settings-derive"]),
    // The terminal view of `ctl top`.
    ("ratatui", &["tidegate"]),
    ("log", &["wheel"]),
    ("regex-automata", &["wheel"]),
    // Keys and requests of certificates; certificates for tests and measurements.
    ("rcgen", &["acme", "etcd", "lua-std", "net", "tls-settings", "scenarios", "bench"]),
    // The load generator is a client of its own.
    ("rustls", &["net", "bench"]),
    ("rustls-native-certs", &["net"]),
    ("saphyr", &[]),
    ("saphyr-parser", &["config"]),
    ("scrypt", &["auth"]),
    ("serde", &["bench", "auth", "admin"]),
    ("serde_yaml", &[]),
    ("socket2", &["net", "scenarios", "bench"]),
    ("syn", &["settings-derive"]),
    // Sockets of tokio stay in net: clippy's disallowed-types. These use its tasks and timers.
    (
        "tokio",
        &[
            "net",
            "message",
            "plugin",
            "http-client",
            "etcd",
            "offload",
            "http-server",
            "upstream",
            "files",
            "acme",
            "cache",
            "apps",
            "auth",
            "lua-vm",
            "lua-std",
            "lua-host",
            "server",
        ],
    ),
    ("tokio-rustls", &["net"]),
    ("x509-cert", &["net"]),
    ("zstd", &["coding"]),
];

/// Names that say nothing about what is inside.
pub(crate) const EMPTY_NAMES: &[&str] =
    &["core", "common", "util", "utils", "misc", "helper", "helpers", "types"];

/// A module may be named after these although a crate is: the settings of its crate, a section of
/// the configuration, a command.
const NAMED_AFTER_SOMETHING_ELSE: &[&str] = &["settings.rs", "compile/", "commands/"];

struct Package {
    name: String,
    directory: PathBuf,
    /// Name, and whether it lies in this repository.
    imports: Vec<(String, bool)>,
}

#[test]
fn crates_import_only_what_their_level_allows() {
    let broken = complaints(&workspace());
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// Else a path that begins with the name may mean the crate or the module.
#[test]
fn no_module_is_named_like_a_crate_that_its_crate_imports() {
    let mut broken = Vec::new();
    for package in workspace() {
        let source = package.directory.join("src");
        if !source.is_dir() {
            continue;
        }
        visit(&source, &mut |path| {
            let inside = path.strip_prefix(&source).expect("inside").to_string_lossy();
            let module = inside.rsplit('/').next().and_then(|file| file.strip_suffix(".rs"));
            let same = |(import, ours): &(String, bool)| {
                *ours && module == Some(import.replace('-', "_").as_str())
            };
            let excused = |part: &&str| inside.starts_with(*part) || inside.ends_with(*part);
            if package.imports.iter().any(same) && !NAMED_AFTER_SOMETHING_ELSE.iter().any(excused) {
                broken.push(format!("{} has the name of a crate that it imports", path.display()));
            }
        });
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn the_modules_of_a_crate_import_each_other_without_a_cycle() {
    let mut counts = Command::new("python3");
    let output = counts.arg("scripts/counts").current_dir(crate::root()).output();
    let output = output.expect("python3 starts");
    let counts = String::from_utf8_lossy(&output.stdout);
    assert!(counts.contains("\nimport cycles: 0,"), "{counts}{output:?}");
}

fn workspace() -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .map(|package| {
            let imports = package["dependencies"].as_array().expect("dependencies").iter();
            Package {
                name: text(&package["name"]),
                directory: Path::new(&text(&package["manifest_path"])).with_file_name(""),
                imports: imports
                    .map(|import| (text(&import["name"]), import["path"].is_string()))
                    .collect(),
            }
        })
        .collect()
}

fn level(name: &str) -> Option<u8> {
    LEVELS.iter().find(|(other, _)| *other == name).map(|(_, level)| *level)
}

fn complaints(packages: &[Package]) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in packages {
        let name = package.name.as_str();
        if EMPTY_NAMES.contains(&name) {
            complaints.push(format!("{name}: a name that says nothing"));
        }
        if level(name).is_none() && !OUTSIDE.contains(&name) {
            complaints.push(format!("{name}: has no level in tests/architecture/layers.rs"));
        }
        for (import, ours) in &package.imports {
            let problem = if *ours { inside(name, import) } else { owner(name, import) };
            complaints.extend(problem);
        }
    }
    complaints
}

fn inside(name: &str, import: &str) -> Option<String> {
    if [ENTRY_POINTS, OUTSIDE_IMPORTS].concat().contains(&(name, import)) {
        return None;
    }
    if OUTSIDE.contains(&name) || OUTSIDE.contains(&import) {
        return Some(format!("{name} imports {import}: {OUTSIDE:?} stand outside"));
    }
    let (above, below) = (level(name)?, level(import)?);
    (below >= above)
        .then(|| format!("{name} (level {above}) imports {import} (level {below}), not lower"))
}

fn owner(name: &str, import: &str) -> Option<String> {
    let (_, owners) = OWNERS.iter().find(|(library, _)| *library == import)?;
    (!owners.contains(&name)).then(|| match owners {
        [] => format!("{name} imports {import}, which this repository does not use"),
        _ => format!("{name} imports {import}, which belongs to {owners:?}"),
    })
}

#[test]
fn a_broken_rule_is_seen() {
    let complain = |name: &str, import: &str, ours: bool| {
        let imports = vec![(import.to_owned(), ours)];
        complaints(&[Package { name: name.to_owned(), directory: PathBuf::new(), imports }]).len()
    };
    assert_eq!(complain("message", "wire", true), 0);
    assert_eq!(complain("wire", "message", true), 1, "upwards");
    assert_eq!(complain("router", "filters", true), 1, "a neighbour");
    assert_eq!(complain("bench", "message", true), 1, "out of the levels");
    assert_eq!(complain("server", "bench", true), 1, "into the levels");
    assert_eq!(complain("tidegate", "bench", true), 0, "an entry point");
    assert_eq!(complain("tidegate", "scenarios", true), 1, "into the levels");
    assert_eq!(complain("net", "tokio", false), 0);
    assert_eq!(complain("router", "tokio", false), 1, "another's library");
    assert_eq!(complain("net", "hyper", false), 1, "a library without an owner");
    assert_eq!(complain("types", "memchr", false), 2, "no level, and no name");
}
