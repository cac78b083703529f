//! The small servers of the published pages, built from sources where the toolchain is installed.
//!
//! Owns crates/bench/peers/: one accept loop each, as the pages describe it, with Go's net package,
//! libuv and mio. They respond to `hello` (and the PING of RESP) with a fixed text. Promises to
//! build once per version of a source, into the cache directory, and to fail with one line that
//! says what is missing.

use super::executables::{on_path, run_to_end};
use super::{Peer, Program, Role, Setup, Site};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Fetching and building mio takes longest.
const BUILD_WAIT: Duration = Duration::from_secs(300);
/// The file name of the program in its directory.
const PROGRAM: &str = "peer";

/// A server that is built.
#[derive(Debug)]
pub(super) struct Source {
    name: &'static str,
    /// Names and texts.
    files: &'static [(&'static str, &'static str)],
    tool: &'static str,
    /// Arguments that build `peer`.
    build: &'static [&'static str],
    /// The output path of the build tool.
    output: &'static str,
    version: &'static str,
    how: &'static str,
}

macro_rules! source {
    ($path:literal) => {
        include_str!(concat!("../../peers/", $path))
    };
}

pub(super) const GO_NET: Peer = Peer {
    name: "go-net",
    program: Program::Built(&Source {
        name: "go-net",
        files: &[("main.go", source!("go-net/main.go")), ("go.mod", source!("go-net/go.mod"))],
        tool: "go",
        build: &["build", "-o", PROGRAM, "."],
        output: PROGRAM,
        version: "version",
        how: "apt-get install golang-go",
    }),
    start_seconds: 0.2,
    setup,
};

pub(super) const LIBUV: Peer = Peer {
    name: "libuv",
    program: Program::Built(&Source {
        name: "libuv",
        files: &[("main.c", source!("libuv/main.c"))],
        tool: "cc",
        build: &["-O2", "-o", PROGRAM, "main.c", "-luv"],
        output: PROGRAM,
        version: "--version",
        how: "apt-get install gcc libuv1-dev",
    }),
    start_seconds: 0.2,
    setup,
};

pub(super) const MIO: Peer = Peer {
    name: "mio",
    program: Program::Built(&Source {
        name: "mio",
        files: &[("main.rs", source!("mio/main.rs")), ("Cargo.toml", source!("mio/manifest.toml"))],
        tool: "cargo",
        build: &["build", "--release", "--target-dir", "target"],
        output: "target/release/peer",
        version: "--version",
        how: "https://rustup.rs",
    }),
    start_seconds: 0.2,
    setup,
};

fn setup(site: &Site) -> Option<Setup> {
    let what = match site.role {
        Role::Hello => "hello",
        Role::Ping => "ping",
        _ => return None,
    };
    if site.workers > 1 {
        return None;
    }
    // Only Go's runtime reads it: https://pkg.go.dev/runtime#hdr-Environment_Variables
    Some(Setup::new(&[what, &site.address.to_string()]).environment("GOMAXPROCS", site.workers))
}

impl Source {
    /// Builds the program and returns its path and the version of the tool, or a line that names
    /// what is missing.
    pub(super) fn build(&self, cache: &Path) -> Result<(PathBuf, String), String> {
        let tool = on_path(&[self.tool])
            .ok_or_else(|| format!("not built: no {} ({})", self.tool, self.how))?;
        let tool = tool.display().to_string();
        let said = |words: &[&str], directory: &Path| {
            let words = [tool.as_str()].iter().chain(words).map(|&word| word.to_owned()).collect();
            run_to_end(words, directory, BUILD_WAIT)
        };
        let version = said(&[self.version], &std::env::temp_dir())?;
        let version = version.lines().next().unwrap_or_default().to_owned();
        let directory = cache.join(format!("{}-{:016x}", self.name, self.hash(&version)));
        let program = directory.join(self.output);
        let not_built = |why| format!("not built: {}: {why}", directory.display());
        // Others wait until it is whole.
        let _building = lock(&directory).map_err(not_built)?;
        if !program.exists() {
            self.write(&directory).map_err(not_built)?;
            said(self.build, &directory)
                .map_err(|why| format!("not built ({}): {}", self.how, error_line(&why)))?;
        }
        Ok((program, format!("built by {version}")))
    }

    fn write(&self, directory: &Path) -> std::io::Result<()> {
        for (name, text) in self.files {
            fs::write(directory.join(name), text)?;
        }
        Ok(())
    }

    fn hash(&self, version: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.files, self.build, version).hash(&mut hasher);
        hasher.finish()
    }
}

/// Locks a directory, which is created, until the file is dropped.
fn lock(directory: &Path) -> std::io::Result<File> {
    fs::create_dir_all(directory)?;
    let file = File::create(directory.join("lock"))?;
    file.lock()?;
    Ok(file)
}

/// Returns the line of a compiler's output that has the error.
fn error_line(said: &str) -> &str {
    let wrong = said.lines().find(|line| line.contains("error"));
    wrong.or(said.lines().last()).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::error_line;

    #[test]
    fn what_is_missing_is_one_line() {
        let said =
            "cc: exit status: 1: main.c:8:10: fatal error: uv.h: No such file\n    8 | #include";
        assert!(error_line(said).ends_with("uv.h: No such file"));
        assert_eq!(error_line("go: \nno network"), "no network");
    }
}
