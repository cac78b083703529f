//! Every kind of error, as users see it: `errors/*.yaml` and the report it gives,
//! `errors/*.txt`.
//!
//! `UPDATE_GOLDENS=1 cargo test -p config --test mistakes` writes the reports again; read the
//! difference.

use std::fs;
use std::path::{Path, PathBuf};

use config::{Kinds, TextSource, load};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes")
}

/// Files that `include` names are read from disk; the main document is named without its directory.
struct Fixture(TextSource, config::FileSource);

impl config::Source for Fixture {
    fn main(&self) -> Result<config::Document, String> {
        self.0.main()
    }

    fn included(&self, pattern: &str, dir: Option<&Path>) -> Result<Vec<config::Document>, String> {
        self.1.included(pattern, dir)
    }
}

fn report(path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name of letters");
    let text = fs::read_to_string(path).expect("a fixture");
    let environment = |name: &str| (name == "SECRET").then(|| "hunter2".to_owned());
    let source =
        Fixture(TextSource::new(name, &text).in_dir(directory()), config::FileSource::new(path));
    let report = match load(&source, &environment, &Kinds::all()) {
        Ok(_) => panic!("{name} has no error"),
        Err(report) => report,
    };
    assert!(!report.is_empty(), "{name}: refused without an error");
    report.render().replace(&format!("{}/", directory().display()), "")
}

#[test]
fn reports_are_what_they_were() {
    let mut fixtures: Vec<_> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .collect();
    fixtures.sort();
    assert!(fixtures.len() >= 25, "only {} kinds of errors", fixtures.len());
    let mut differing = Vec::new();
    for path in fixtures {
        let golden = path.with_extension("txt");
        let found = report(&path);
        assert!(!found.contains("hunter2"), "a secret is shown:\n{found}");
        if std::env::var_os("UPDATE_GOLDENS").is_some() {
            fs::write(&golden, &found).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if found != expected {
            let name = golden.file_name().unwrap().to_string_lossy().into_owned();
            differing.push(format!("{name}\n--- expected\n{expected}--- found\n{found}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
