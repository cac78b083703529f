//! Finds the programs of peers on this machine and queries their versions.
//!
//! Promises that a missing program, or one without a version, is one line that says how to install
//! it. Never installs anything; `sources` builds the small servers.

use super::executables::{on_path, run_to_end};
use super::{Peer, Program, python};
use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time-out of querying a version.
const VERSION_WAIT: Duration = Duration::from_secs(10);

/// The directories and paths where programs are searched.
#[derive(Clone, Debug)]
pub struct Finder {
    /// The program under test, with its first arguments.
    pub subject: Vec<String>,
    /// The command that runs [`crate::floor::serve`] with the arguments that follow.
    pub floor: Vec<String>,
    /// Programs given by the user: `--peer nginx=/opt/nginx/sbin/nginx`.
    pub given: BTreeMap<String, PathBuf>,
    /// The directory where the small servers are built; `None` if they are not.
    pub cache: Option<PathBuf>,
    /// The interpreter that runs everything that is Python.
    pub python: Option<PathBuf>,
}

/// A peer that can be run.
#[derive(Clone, Debug)]
pub struct FoundPeer {
    pub peer: &'static Peer,
    /// As reported by the program.
    pub version: String,
    /// The program, with the arguments that precede those of its setup.
    pub(super) program: Vec<String>,
    /// The interpreter of the run; that of its own environment for another Tidegate.
    pub(super) python: PathBuf,
    /// Why it cannot be what takes Python, if so.
    pub(crate) no_python: Option<String>,
}

impl FoundPeer {
    fn new(
        peer: &'static Peer,
        version: String,
        program: Vec<String>,
        python: Option<&Path>,
    ) -> Self {
        let python = python.unwrap_or(Path::new("python3")).to_owned();
        Self { peer, version, program, python, no_python: None }
    }

    /// One that is not there, to lay out runs with.
    #[cfg(test)]
    pub(crate) fn sample(peer: &'static Peer) -> Self {
        Self::new(peer, "1.0".to_owned(), vec![peer.name.to_owned()], None)
    }
}

impl Finder {
    /// For a program with the commands `up`, `version` and `bench floor`, as tidegate has.
    pub fn new(tidegate: &Path, given: BTreeMap<String, PathBuf>) -> Self {
        let program = tidegate.display().to_string();
        let floor = vec![program.clone(), "bench".to_owned(), "floor".to_owned()];
        let (cache, python) = (cache_directory(), python::interpreter());
        Self { subject: vec![program], floor, given, cache, python }
    }

    /// Returns the peer, or a line that says what is missing.
    pub fn find(&self, peer: &'static Peer) -> Result<FoundPeer, String> {
        let found =
            |version, program| FoundPeer::new(peer, version, program, self.python.as_deref());
        let (program, version) = match &peer.program {
            Program::Subject => (self.subject.clone(), "version"),
            Program::Given => {
                let path = self.given.get(peer.name).ok_or("no program was given")?;
                let program = vec![path.display().to_string()];
                let version = reported_version(&program, "version")?;
                let python = path.with_file_name("python");
                let mut found = FoundPeer::new(peer, version, program, Some(&python));
                found.no_python = (!python.exists()).then(|| {
                    "for Python applications, give the `tidegate` of an environment with a wheel"
                        .to_owned()
                });
                return Ok(found);
            }
            Program::Floor => {
                let version = concat!("of this program, ", env!("CARGO_PKG_VERSION")).to_owned();
                return Ok(found(version, self.floor.clone()));
            }
            Program::Python { module, needs } => {
                let version = python::versions(self.python.as_deref(), needs)?;
                let python = self.python.iter().map(|path| path.display().to_string());
                let module = module.map(|module| ["-m".to_owned(), module.to_owned()]);
                let program = python.chain(module.into_iter().flatten()).collect();
                return Ok(found(version.trim().to_owned(), program));
            }
            Program::Installed { names, version, how } => {
                let path = match self.given.get(peer.name) {
                    Some(path) => path.clone(),
                    None => on_path(names).ok_or_else(|| format!("not installed: {how}"))?,
                };
                (vec![path.display().to_string()], *version)
            }
            Program::Built(source) => {
                let cache = self.cache.as_deref().ok_or("not built: name it to have it built")?;
                let (path, version) = source.build(cache)?;
                return Ok(found(version, vec![path.display().to_string()]));
            }
        };
        let version = reported_version(&program, version)?;
        Ok(found(version, program))
    }

    /// Looks for the Python packages it needs besides its own.
    pub(crate) fn look_into_python(&self, found: &mut FoundPeer, needs: &[&str]) {
        let is_known = |name: &&str| found.version.contains(&format!("{name} "));
        let needs: Vec<&str> = needs.iter().copied().filter(|name| !is_known(name)).collect();
        if needs.is_empty() || found.no_python.is_some() {
            return;
        }
        let python = match found.peer.program {
            Program::Given => Some(found.python.as_path()),
            _ => self.python.as_deref(),
        };
        match python::versions(python, &needs) {
            Ok(versions) => {
                // The interpreter has reported it.
                let interpreter = versions.rfind(", CPython").filter(|_| is_known(&"CPython"));
                let versions = &versions[..interpreter.unwrap_or(versions.len())];
                found.version += &format!(", {}", versions.trim());
            }
            Err(why) => found.no_python = Some(why),
        }
    }
}

/// https://specifications.freedesktop.org/basedir-spec/latest/: `XDG_CACHE_HOME` or `~/.cache`.
fn cache_directory() -> Option<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = named.or_else(|| Some(env::home_dir()?.join(".cache")))?;
    Some(cache.join("tidegate/bench"))
}

fn reported_version(program: &[String], argument: &str) -> Result<String, String> {
    let words = program.iter().cloned().chain([argument.to_owned()]).collect();
    let said = run_to_end(words, &env::temp_dir(), VERSION_WAIT)
        .map_err(|why| format!("cannot be run: {why}"))?;
    let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("unknown");
    // Some begin with how they were called.
    let called = program.first().map_or("", String::as_str);
    Ok(line.strip_prefix(called).unwrap_or(line).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::Finder;
    use crate::peers::executables::on_path;
    use crate::peers::named;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    fn finder(given: &str) -> Finder {
        let given = [("nginx".to_owned(), PathBuf::from(given))].into();
        Finder {
            subject: vec!["/nowhere/tidegate".to_owned()],
            floor: Vec::new(),
            given,
            cache: None,
            python: None,
        }
    }

    #[test]
    fn what_is_missing_is_a_line() {
        let missing = finder("/nowhere/nginx").find(named("nginx").unwrap()).unwrap_err();
        assert!(missing.starts_with("cannot be run: /nowhere/nginx: "), "{missing}");
        // `false` is there, and fails to tell its version.
        let failing = on_path(&["false"]).unwrap();
        let missing = finder(failing.to_str().unwrap()).find(named("nginx").unwrap()).unwrap_err();
        assert!(missing.starts_with("cannot be run: "), "{missing}");
        let missing = finder("").find(named("mio").unwrap()).unwrap_err();
        assert_eq!(missing, "not built: name it to have it built");
        assert_eq!(on_path(&["no-such-program-anywhere"]), None);
    }

    #[test]
    fn a_version_does_not_begin_with_where_the_program_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nginx");
        std::fs::write(&path, "#!/bin/sh\necho; echo \"$0  version: 1.2/RELEASE\"\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let found = finder(path.to_str().unwrap()).find(named("nginx").unwrap()).unwrap();
        assert_eq!(found.version, "version: 1.2/RELEASE");
    }

    #[test]
    fn a_given_program_is_taken() {
        let echo = on_path(&["no-such-program", "echo"]).unwrap();
        let found = finder(echo.to_str().unwrap()).find(named("nginx").unwrap()).unwrap();
        assert_eq!(found.version, "-v");
    }
}
