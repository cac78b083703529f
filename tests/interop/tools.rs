//! Foreign programs: found, started, and read. And the gateway they are pointed at.

use scenarios::{Exit, Process, Tidegate, command_exists};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// How long a compiler may take.
const BUILT_WITHIN: Duration = Duration::from_secs(150);

/// Whether `name` is installed; says so if not.
pub(crate) fn has(name: &str) -> bool {
    let has = command_exists(name);
    if !has {
        skip(&format!("{name} is not installed"));
    }
    has
}

/// Says why something is not tested, past the harness, which hides the words of a test that passes.
pub(crate) fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// What `scripts/prepare` has installed for this repository.
fn prepared(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools").join(path)
}

fn find_python_with(module: &str) -> Option<PathBuf> {
    let import = format!("import {module}");
    [prepared("venv/bin/python"), PathBuf::from("python3")].into_iter().find(|python| {
        let imported = Command::new(python).args(["-c", &import]).output();
        imported.is_ok_and(|output| output.status.success())
    })
}

/// A Python that can import a module: the one of `scripts/prepare`, or the machine's.
pub(crate) fn python_with(module: &str) -> Option<PathBuf> {
    let found = find_python_with(module);
    if found.is_none() {
        skip(&format!("no Python here has {module}"));
    }
    found
}

/// [`python_with`], where the test fails without the module.
pub(crate) fn python_that_has(module: &str) -> Option<PathBuf> {
    if !has("python3") {
        return None;
    }
    let found = find_python_with(module);
    if found.is_none() {
        skip_if_unreachable("pip", module);
    }
    found
}

/// The directory of the packages of tests/interop/node, which have to be there where Node is.
pub(crate) fn prepared_node_packages(package: &str) -> Option<PathBuf> {
    if !has("node") || !has("npm") {
        return None;
    }
    let directory = prepared("node/node_modules");
    if !directory.join(package).is_dir() {
        skip_if_unreachable("npm", package);
        return None;
    }
    Some(directory)
}

/// Says that `scripts/prepare` could not install a package because the registry could not be
/// reached. Without its note of that the test fails.
fn skip_if_unreachable(installer: &str, package: &str) {
    let is_noted = prepared("unreachable").join(installer).exists();
    assert!(is_noted, "{package} is not installed: run scripts/prepare programs");
    skip(&format!("{package} is not installed: the registry of {installer} was not reachable"));
}

/// The directory with these packages of npm, `NAME@VERSION` each, once they are installed; says so
/// if they are not.
pub(crate) fn node_packages(name: &str, packages: &[&str]) -> Option<PathBuf> {
    if !has("node") || !has("npm") {
        return None;
    }
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let versions: Vec<&str> = packages.iter().filter_map(|one| one.rsplit('@').next()).collect();
    let directory = root.join(format!("{name}-{}", versions.join("-")));
    if !directory.exists() {
        let installing = TempDir::new_in(root).expect("a temporary directory");
        let mut npm = command("timeout", installing.path());
        npm.args(["120", "npm", "install", "--no-audit", "--no-fund", "--no-save"]);
        npm.args(["--prefix", "."]).args(packages);
        if !npm.output().is_ok_and(|output| output.status.success()) {
            skip(&format!("{} could not be installed from npm", packages.join(", ")));
            return None;
        }
        // Another test may have been first: then its packages are there, and these are removed.
        let _ = fs::rename(installing.path(), &directory);
    }
    Some(directory)
}

/// A command, also one from the directories of the administrator, run in `directory`.
pub(crate) fn command(name: &str, directory: &Path) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).current_dir(directory);
    command
}

/// Runs `name` to its end, which has to be a good one.
pub(crate) fn run(name: &str, directory: &Path, arguments: &[&str]) -> Exit {
    let exit = Process::run(command(name, directory).args(arguments));
    assert_eq!(exit.code, Some(0), "{name} {arguments:?}: {exit:?}");
    exit
}

/// Go compiles without optimisation and information for debuggers, its library too, as for what
/// scripts/prepare builds: so the library is compiled once for all.
pub(crate) const GO_FLAGS: [&str; 2] = ["-gcflags=all=-N -l -dwarf=false", "-ldflags=-w"];

/// Builds a program of one file with Go, whose library is compiled when it is first used.
pub(crate) fn go_program(directory: &Path, source: &str) -> Command {
    fs::write(directory.join("program.go"), source).expect("a file");
    let mut build = command("go", directory);
    build.arg("build").args(GO_FLAGS).args(["-o", "program", "program.go"]);
    build.env("GO111MODULE", "off").env("GOTOOLCHAIN", "local");
    let exit = Process::start(&mut build).wait_within(BUILT_WITHIN);
    assert_eq!(exit.code, Some(0), "{exit:?}");
    let mut program = Command::new(directory.join("program"));
    program.current_dir(directory);
    program
}

/// A gateway with a listener `web` and all of `more`.
pub(crate) fn gateway(more: &str) -> Tidegate {
    Tidegate::start(&format!(
        "listeners: {{ web: {{ bind: \"127.0.0.1:0\" }} }}\n\
         admin: {{ bind: \"127.0.0.1:0\" }}\n{more}"
    ))
}

/// Everything to the upstream `u` at `server`.
pub(crate) fn proxy(server: &str) -> Tidegate {
    gateway(&format!(
        "upstreams: {{ u: {{ servers: [\"{server}\"] }} }}\n\
         routes: [{{ name: all, match: {{ path: \"/{{*rest}}\" }}, handler: {{ upstream: u }} }}]\n"
    ))
}

/// nginx with this configuration, which serves the directory `html` with `text.txt` in it, and
/// where it listens: at a Unix socket, so that no port has to be guessed.
pub(crate) fn nginx(directory: &TempDir, config: &str, text: &str) -> (Process, String) {
    fs::create_dir(directory.path().join("html")).expect("a directory");
    fs::write(directory.path().join("html/text.txt"), text).expect("a file");
    // Paths in a configuration are relative to where it lies, or to -p.
    let address = format!("unix:{}", directory.path().join("nginx.sock").display());
    let config = config.replace("unix:nginx.sock", &address);
    fs::write(directory.path().join("nginx.conf"), config).expect("a file");
    let prefix = format!("{}/", directory.path().display());
    let mut command = command("nginx", directory.path());
    command.args(["-p", &prefix, "-c", "nginx.conf", "-e", "stderr"]);
    let process = Process::start(&mut command);
    let ready = process.wait_for_line(|line| line.contains("epoll").then_some(()));
    assert!(ready.is_some(), "nginx ended: {:?}", process.log());
    (process, address)
}

/// A text that compresses, and of which no part is like another.
pub(crate) fn long_text(lines: usize) -> String {
    (0..lines).map(|line| format!("{line}: a line like many others, and yet its own\n")).collect()
}

/// After a load: at least so many good responses, and no failure. What a client leaves unanswered
/// when its time is over is none.
pub(crate) fn assert_served(server: &Tidegate, least: f64) {
    let class = |class| [("class", class)];
    server.wait_for_metric("tidegate_responses_total", &class("2xx"), least);
    assert_eq!(server.metrics().sum("tidegate_responses_total", &class("5xx")), 0.0);
}

/// A browser without a window, with visitors that each have their own profile.
pub(crate) struct Browser {
    name: &'static str,
    directory: TempDir,
}

impl Browser {
    /// The one that is installed; says so if there is none.
    pub(crate) fn found() -> Option<Browser> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let found = names.into_iter().find(|name| command_exists(name));
        if found.is_none() {
            skip("no Chromium is installed");
        }
        let directory = TempDir::new().expect("a temporary directory");
        found.map(|name| Browser { name, directory })
    }

    /// The name of its program.
    pub(crate) fn program(&self) -> &'static str {
        self.name
    }

    /// What the page has written into its element `said`.
    pub(crate) fn shown(&self, profile: &str, url: &str, more: &[&str]) -> String {
        let mut command = command("timeout", self.directory.path());
        command.args(["--kill-after=5", "120", self.name, "--headless", "--no-sandbox"]);
        command.args(["--disable-gpu", "--disable-background-networking", "--no-first-run"]);
        command.args(["--dump-dom", "--virtual-time-budget=20000"]);
        command.arg(format!("--user-data-dir={}", self.directory.path().join(profile).display()));
        command.args(more).arg(url);
        let output = command.output().expect("timeout(1) starts");
        let page = String::from_utf8_lossy(&output.stdout).into_owned();
        let shown = page.split("<pre id=\"said\">").nth(1).unwrap_or_else(|| panic!("{page}"));
        shown.split("</pre>").next().unwrap_or_default().to_owned()
    }
}
