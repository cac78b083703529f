//! `tidegate new KIND`: write the files of a new project.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::failure::Failure;
use crate::output::print;

const EXAMPLES: &str = "\
No file is overwritten, except those of lua-types.

Examples:
  tidegate new lua-service shop
  tidegate new lua-types .tidegate/types";

/// Where a project has the type definitions.
const TYPES: &str = ".tidegate/types";

/// Write the files of a new project
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct New {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// An HTTP API in Lua with settings, tests and type definitions
    LuaService {
        /// The name, and the directory that is created
        name: String,
    },
    /// Type definitions of the Lua modules, for lua-language-server
    LuaTypes {
        /// The directory
        #[arg(default_value = TYPES)]
        directory: PathBuf,
    },
}

/// The files of a service; SERVICE stands for its name.
const SERVICE: &[(&str, &str)] = &[
    ("README.md", include_str!("new/lua-service/README.md")),
    ("main.lua", include_str!("new/lua-service/main.lua")),
    ("config.lua", include_str!("new/lua-service/config.lua")),
    ("lualib/api.lua", include_str!("new/lua-service/lualib/api.lua")),
    ("tests/api_test.lua", include_str!("new/lua-service/tests/api_test.lua")),
    (".luarc.json", include_str!("new/lua-service/luarc.json")),
    (".gitignore", include_str!("new/lua-service/gitignore")),
];

impl New {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.kind {
            Kind::LuaService { name } => service(&name),
            Kind::LuaTypes { directory } => {
                let count = types(&directory)?;
                print(&format!("{count} files in {}\n", directory.display()))
            }
        }
    }
}

fn service(name: &str) -> Result<(), Failure> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if name.is_empty() || name.starts_with('-') || !name.chars().all(is_plain) {
        return Err(Failure::Wrong(format!(
            "\"{name}\" is not a name: write letters, digits, - and _"
        )));
    }
    let directory = Path::new(name);
    if directory.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::Wrong(format!("the directory {name} is not empty")));
    }
    for (file, text) in SERVICE {
        let path = directory.join(file);
        create(&path, &text.replace("SERVICE", name)).map_err(|error| failed(&path, &error))?;
    }
    types(&directory.join(TYPES))?;
    print(&format!(
        "{name} is written. Next:\n\n  cd {name}\n  tidegate test tests\n  tidegate run main.lua\n"
    ))
}

/// Writes the definitions; returns the number of files.
fn types(directory: &Path) -> Result<usize, Failure> {
    let files = lua_host::definitions();
    for (file, text) in &files {
        let path = directory.join(file);
        replace(&path, text).map_err(|error| failed(&path, &error))?;
    }
    Ok(files.len())
}

fn create(path: &Path, text: &str) -> std::io::Result<()> {
    make_parent(path)?;
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    make_parent(path)?;
    fs::write(path, text)
}

fn make_parent(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("cannot write {}: {error}", path.display()))
}
