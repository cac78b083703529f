//! Attempts to escape a directory, against both lookups.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};

use super::{
    OpenError, OpenedPath, SymlinkPolicy, checked, is_resident, is_same, metadata_beneath,
    open_beneath, warm,
};

type Open = fn(&Path, &Path, SymlinkPolicy) -> Result<OpenedPath, OpenError>;

fn lookups() -> Vec<(&'static str, Open)> {
    let mut lookups: Vec<(&'static str, Open)> = vec![("checked", checked::open)];
    #[cfg(target_os = "linux")]
    if super::openat2::available() {
        lookups.push(("openat2", super::openat2::open));
    }
    lookups
}

fn pipe(path: &Path) {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn is_missing(result: &Result<OpenedPath, OpenError>) -> bool {
    matches!(result, Err(OpenError::Missing))
}

#[test]
fn symbolic_links_are_followed_inside_the_directory_only() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("deep/er")).unwrap();
    fs::write(dir.path().join("secret"), "secret").unwrap();
    fs::write(root.join("plain"), "plain").unwrap();
    symlink("../../plain", root.join("deep/er/inside")).unwrap();
    symlink("../secret", root.join("out")).unwrap();
    symlink(dir.path().join("secret"), root.join("absolute")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("loop2", root.join("loop1")).unwrap();
    symlink("loop1", root.join("loop2")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink("deep", root.join("shallow")).unwrap();
    for (name, open) in lookups() {
        let at = |path: &str, links| open(&root, Path::new(path), links);
        assert!(matches!(at("plain", SymlinkPolicy::Beneath), Ok(OpenedPath::File(..))), "{name}");
        assert!(
            matches!(at("deep/er/inside", SymlinkPolicy::Beneath), Ok(OpenedPath::File(..))),
            "{name}"
        );
        assert!(
            matches!(at("shallow/er", SymlinkPolicy::Beneath), Ok(OpenedPath::Directory(_))),
            "{name}"
        );
        for path in ["out", "absolute", "up", "up/secret", "loop1", "dangling", "plain/x", "none"] {
            assert!(is_missing(&at(path, SymlinkPolicy::Beneath)), "{name}: {path}");
        }
        for path in ["deep/er/inside", "shallow/er", "out", "absolute"] {
            assert!(is_missing(&at(path, SymlinkPolicy::Refused)), "{name}: {path}");
        }
        assert!(
            matches!(at("deep/er", SymlinkPolicy::Refused), Ok(OpenedPath::Directory(_))),
            "{name}"
        );
    }
}

#[test]
fn only_plain_names_are_opened() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(dir.path().join("secret"), "").unwrap();
    for path in ["../secret", "/etc/passwd", "./../secret", "a/../../secret", "\0", "secret\0"] {
        assert!(
            is_missing(&open_beneath(&root, Path::new(path), SymlinkPolicy::Beneath)),
            "{path:?}"
        );
    }
    let found = open_beneath(&root, Path::new(""), SymlinkPolicy::Beneath);
    assert!(matches!(found, Ok(OpenedPath::Directory(_))));
    let found = open_beneath(&dir.path().join("gone"), Path::new("a"), SymlinkPolicy::Beneath);
    assert!(is_missing(&found));
}

#[test]
fn special_files_are_refused_without_blocking() {
    let dir = tempfile::tempdir().unwrap();
    pipe(&dir.path().join("pipe"));
    fs::create_dir(dir.path().join("directory")).unwrap();
    for (name, open) in lookups() {
        let found = open(dir.path(), Path::new("pipe"), SymlinkPolicy::Beneath);
        assert!(matches!(found, Err(OpenError::Special)), "{name}: {found:?}");
        let found = open(Path::new("/dev"), Path::new("null"), SymlinkPolicy::Beneath);
        assert!(matches!(found, Err(OpenError::Special)), "{name}: {found:?}");
        let found = open(dir.path(), Path::new("directory"), SymlinkPolicy::Beneath);
        assert!(matches!(found, Ok(OpenedPath::Directory(_))), "{name}");
    }
}

#[test]
fn a_replaced_root_is_resolved_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("current");
    for release in ["one", "two"] {
        fs::create_dir(dir.path().join(release)).unwrap();
        fs::write(dir.path().join(release).join("file"), release).unwrap();
    }
    symlink("one", &root).unwrap();
    let before = metadata_beneath(&root, Path::new("file"), SymlinkPolicy::Refused).unwrap();
    symlink("two", dir.path().join("next")).unwrap();
    fs::rename(dir.path().join("next"), &root).unwrap();
    let after = metadata_beneath(&root, Path::new("file"), SymlinkPolicy::Refused).unwrap();
    assert!(!is_same(&before, &after));
}

#[test]
fn directory_entries_are_listed_up_to_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        fs::write(dir.path().join(name), name).unwrap();
    }
    let Ok(OpenedPath::Directory(directory)) =
        open_beneath(dir.path(), Path::new(""), SymlinkPolicy::Beneath)
    else {
        panic!("no directory")
    };
    let mut names: Vec<_> =
        directory.entries(10).unwrap().into_iter().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(directory.entries(2).unwrap().len(), 2);
}

#[test]
fn a_warmed_file_is_resident() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large");
    fs::write(&path, vec![7u8; 700_000]).unwrap();
    let file = fs::File::open(&path).unwrap();
    warm(&file, 0, 700_000).unwrap();
    assert!(is_resident(&file, 0, 700_000));
    assert!(is_resident(&file, 0, 0));
    // Shorter than the requested range: neither call waits for missing bytes.
    warm(&file, 600_000, 900_000).unwrap();
    assert!(!is_resident(&file, 600_000, 900_000));
    let write_only = fs::File::options().write(true).open(&path).unwrap();
    assert!(!is_resident(&write_only, 0, 1));
}
