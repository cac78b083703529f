//! Runs the commands and checks the configurations of README and the guides, page by page, in the
//! order in which a reader meets them, each page in an empty directory.
//!
//! A page keeps the ports it prints, because it has a network namespace of its own; where the
//! kernel grants none, the test says so and passes. What a block is for follows from its language:
//!
//! | fence | what the test does |
//! |---|---|
//! | `sh` | runs each command; a server runs until the page ends |
//! | `console` | runs each `$ command` and compares what it prints; `…` stands for anything |
//! | `yaml FILE`, `python FILE`, … | writes the file; a whole configuration must pass `check` |
//! | `yaml` | a part of a configuration: must pass `check` in its place |
//!
//! A comment before a block, `<!-- test: INSTRUCTION -->`, changes that:
//!
//! | instruction | |
//! |---|---|
//! | `any output` | what is printed is not compared |
//! | `example` | a server runs this configuration from here on, in place of the example before |
//! | `alternatives` | each server is stopped before the next command |
//! | `usage` | each command runs for a moment only, and must not be wrong usage |
//! | `skip REASON` | the block is left out |
//! | `stop` | stops the servers, where the text says so; belongs to no block |
//! | `run`, then commands up to `-->` | the test alone runs them; belongs to no block |

mod defaults;
mod examples;
mod page;
mod parts;
mod script;

use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_path_buf()
}

macro_rules! pages {
    ($($name:ident = $path:literal;)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(
            #[test]
            fn $name() {
                script::run($path);
            }
        )*
    };
}

pages! {
    readme = "README.md";
    ai = "docs/guide/ai.md";
    authentication = "docs/guide/authentication.md";
    benchmarking = "docs/guide/benchmarking.md";
    caching = "docs/guide/caching.md";
    configuration = "docs/guide/configuration.md";
    files = "docs/guide/files.md";
    fleet = "docs/guide/fleet.md";
    filters = "docs/guide/filters.md";
    getting_started = "docs/guide/getting-started.md";
    grpc = "docs/guide/grpc.md";
    kubernetes = "docs/guide/kubernetes.md";
    lua_handlers = "docs/guide/lua-handlers.md";
    lua_shared = "docs/guide/lua/shared.md";
    lua_programs = "docs/guide/lua/README.md";
    lua_testing = "docs/guide/lua/testing.md";
    lua_subrequests = "docs/guide/lua/subrequests.md";
    operating = "docs/guide/operating.md";
    tracing = "docs/guide/tracing.md";
    protection = "docs/guide/protection.md";
    public_internet = "docs/guide/public-internet.md";
    recipe_behind_a_tls_proxy = "docs/guide/recipes/behind-a-tls-proxy.md";
    recipe_single_page_application = "docs/guide/recipes/single-page-application.md";
    recipe_two_sites = "docs/guide/recipes/two-sites.md";
    recipe_wordpress = "docs/guide/recipes/wordpress.md";
    routing = "docs/guide/routing.md";
    streams = "docs/guide/streams.md";
    traffic = "docs/guide/traffic.md";
    transformation = "docs/guide/transformation.md";
    upstreams = "docs/guide/upstreams.md";
}

/// Pages that need a `tidegate` with Python inside: `scripts/python` installs one and names it.
const PYTHON_PAGES: &[&str] = &[
    "docs/guide/from-gunicorn-and-uvicorn.md",
    "docs/guide/python.md",
    "docs/guide/recipes/django-and-fastapi.md",
];

#[test]
fn python() {
    match std::env::var_os("TIDEGATE_PYTHON_BINARY") {
        Some(binary) => {
            PYTHON_PAGES.iter().for_each(|page| script::run_with(page, binary.as_ref()));
        }
        None => {
            eprintln!("documentation: skipped {PYTHON_PAGES:?}: TIDEGATE_PYTHON_BINARY is not set")
        }
    }
}

#[test]
fn every_page_with_commands_or_configurations_is_run() {
    let mut missing = Vec::new();
    for directory in ["docs/guide", "docs/guide/lua", "docs/guide/recipes"] {
        for entry in std::fs::read_dir(workspace().join(directory)).expect("a directory of pages") {
            let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            let path = format!("{directory}/{name}");
            let is_run =
                !name.ends_with(".md") || PAGES.contains(&&*path) || PYTHON_PAGES.contains(&&*path);
            if !is_run && !page::read(&path).iter().all(page::Step::is_of_other_tests) {
                missing.push(path);
            }
        }
    }
    assert!(missing.is_empty(), "add them to the list in this file: {missing:?}");
}
