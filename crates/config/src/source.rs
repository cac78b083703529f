//! Configuration sources (extension point 10): documents with a version.
//!
//! A document's version changes with its text. A file is replaced as a whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::limits::DOCUMENT_BYTES;

/// A document as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its name in errors.
    pub name: String,
    pub text: String,
    /// The base of its relative paths.
    pub dir: Option<PathBuf>,
}

impl Document {
    /// A short name of exactly this text, for ETags.
    pub fn version(&self) -> String {
        version_of([self.text.as_str()])
    }
}

/// A short name of exactly these texts.
pub(crate) fn version_of<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut version = Version::default();
    texts.into_iter().for_each(|text| version.add(text));
    version.finish()
}

/// A short name of texts that are read one after the other.
#[derive(Default)]
pub(crate) struct Version(Sha256);

impl Version {
    pub(crate) fn add(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text.as_bytes());
    }

    pub(crate) fn finish(self) -> String {
        self.0.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// What replaces a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewConfig {
    /// The text of the main document.
    Main(String),
    /// All documents by name, where they are a set: see [`Source::documents`].
    Documents(BTreeMap<String, String>),
}

/// The error of [`Source::replace`], with a sentence for the user.
#[derive(Debug)]
pub enum ReplaceError {
    /// The source can never be written as it is: it is not a file, or permissions forbid it.
    ReadOnly(String),
    /// The source has other content by now than what is to be replaced.
    Conflict(String),
    /// Writing failed for another reason, such as a full disk.
    Failed(String),
}

/// Gives documents. Everything may fail with one clear sentence.
pub trait Source: Send + Sync {
    /// The document that everything starts with.
    fn main(&self) -> Result<Document, String>;

    /// The documents that an `include` of a document in `dir` names, sorted by name.
    fn included(&self, pattern: &str, dir: Option<&Path>) -> Result<Vec<Document>, String>;

    /// All documents by name, where the source has them as a set, of which each is a part of the
    /// configuration; a sentence for the user where it has not.
    fn documents(&self) -> Result<BTreeMap<String, String>, String> {
        Err("this server's configuration is not in etcd: only there it is a set of documents"
            .to_owned())
    }

    /// Replaces the main document, or the set of documents. Refused by sources that cannot be
    /// written.
    fn replace(&self, _new: &NewConfig) -> Result<(), ReplaceError> {
        Err(ReplaceError::ReadOnly("this source of configuration cannot be written".to_owned()))
    }

    /// Why the main document cannot be replaced, if that is known before.
    fn read_only(&self) -> Option<String> {
        self.file().is_none().then(|| "this server's configuration is not a file".to_owned())
    }

    /// Offers the last documents that were in use instead of newer ones that cannot be used; false
    /// if there are none.
    fn fall_back(&self) -> bool {
        false
    }

    /// What is wrong with the source, in sentences for an operator. What was read last stays in
    /// use.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// The file that is the main document, for a watcher.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// A certificate with its key, in one file, that every listener with TLS presents in place of
    /// those that the documents name.
    fn development_certificate(&self) -> Option<&Path> {
        None
    }
}

/// A file and what it includes.
#[derive(Clone, Debug)]
pub struct FileSource {
    path: PathBuf,
    development_certificate: Option<PathBuf>,
}

impl FileSource {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        FileSource { path: path.into(), development_certificate: None }
    }

    /// Returns the documents with this certificate: see [`Source::development_certificate`].
    #[must_use]
    pub fn with_development_certificate(self, file: PathBuf) -> Self {
        FileSource { development_certificate: Some(file), ..self }
    }
}

impl Source for FileSource {
    fn main(&self) -> Result<Document, String> {
        read(&self.path)
    }

    fn included(&self, pattern: &str, dir: Option<&Path>) -> Result<Vec<Document>, String> {
        let pattern = dir.unwrap_or(Path::new("")).join(pattern);
        matching(&pattern)?.iter().map(|path| read(path)).collect()
    }

    fn replace(&self, new: &NewConfig) -> Result<(), ReplaceError> {
        let NewConfig::Main(text) = new else {
            return Err(ReplaceError::ReadOnly(self.documents().err().unwrap_or_default()));
        };
        write_whole(&self.path, text).map_err(|error| {
            let message = format!("cannot write {}: {error}", self.path.display());
            match error.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    ReplaceError::ReadOnly(message)
                }
                _ => ReplaceError::Failed(message),
            }
        })
    }

    fn file(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn development_certificate(&self) -> Option<&Path> {
        self.development_certificate.as_deref()
    }
}

fn read(path: &Path) -> Result<Document, String> {
    let explain = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => format!("there is no file {}", path.display()),
        _ => format!("cannot read {}: {e}", path.display()),
    };
    let file = fs::File::open(path).map_err(explain)?;
    let mut bytes = Vec::new();
    // One byte more than allowed, so that the parser detects an oversized file.
    file.take(DOCUMENT_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(explain)?;
    let text =
        String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8 text", path.display()))?;
    // Absolute, so that a later change of the working directory moves nothing.
    let dir = std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_owned));
    Ok(Document { name: path.display().to_string(), text, dir })
}

/// Owner and mode stay those of the file. Readers see the old text or the new one; a crash leaves
/// one of them (rename(2) after fsync(2)).
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    // A link stays a link: what it points to is replaced.
    let path = fs::canonicalize(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = (|| {
        let before = fs::metadata(&path)?;
        // Only its owner may read it until its permissions are set.
        let mut options = fs::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        if (before.uid(), before.gid()) != owner(&file)? {
            fchown(&file, Some(before.uid()), Some(before.gid()))
                .map_err(|error| io::Error::new(error.kind(), "its owner cannot be kept"))?;
        }
        file.set_permissions(before.permissions())?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &path)
    })();
    if written.is_err() {
        // The first error is the one to report; a leftover is harmless.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn owner(file: &fs::File) -> io::Result<(u32, u32)> {
    file.metadata().map(|found| (found.uid(), found.gid()))
}

/// The files a pattern names, sorted. `*` and `?` stand in the last part only; a pattern without
/// them names one file that must exist.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let shown = pattern.display();
    let wild = |text: &str| text.contains(['*', '?']);
    let Some(last) = pattern.file_name().and_then(|name| name.to_str()) else {
        return Err(format!("{shown} names no files"));
    };
    let dir = pattern.parent().unwrap_or(Path::new(""));
    if dir.to_str().is_some_and(wild) {
        return Err(format!("{shown} has a wildcard before its last part"));
    }
    if !wild(last) {
        return Ok(vec![pattern.to_owned()]);
    }
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let entries = fs::read_dir(dir).map_err(|e| format!("cannot read {}: {e}", dir.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| format!("cannot read {}: {e}", dir.display()))?;
        let name = entry.file_name();
        // As in shells, a star does not match hidden files (and leftovers of editors).
        let meant = name.to_str().is_some_and(|name| !name.starts_with('.') && glob(last, name));
        if meant && entry.path().is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Does `name` match a pattern of `*` (any text) and `?` (one character)? Linear in both except for
/// one retry point.
fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // After the last star: where in the pattern to continue, and how much of the name it has eaten.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match &mut star {
                Some((after, eaten)) => {
                    *eaten += 1;
                    (p, n) = (*after, *eaten);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Texts in memory: for tests, for checking what `PUT /v1/config` brings, and for commands that
/// need no file.
#[derive(Clone, Debug)]
pub struct TextSource {
    main: Document,
    others: Vec<Document>,
}

impl TextSource {
    pub fn new(name: &str, text: &str) -> Self {
        TextSource {
            main: Document { name: name.to_owned(), text: text.to_owned(), dir: None },
            others: Vec::new(),
        }
    }

    /// Sets the base of relative paths in the main document.
    pub fn in_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.main.dir = Some(dir.into());
        self
    }

    /// A document that `include` may name.
    pub fn with(mut self, name: &str, text: &str) -> Self {
        let dir = self.main.dir.clone();
        self.others.push(Document { name: name.to_owned(), text: text.to_owned(), dir });
        self
    }
}

impl Source for TextSource {
    fn main(&self) -> Result<Document, String> {
        Ok(self.main.clone())
    }

    fn included(&self, pattern: &str, _dir: Option<&Path>) -> Result<Vec<Document>, String> {
        let mut found: Vec<_> =
            self.others.iter().filter(|document| glob(pattern, &document.name)).cloned().collect();
        if found.is_empty() && !pattern.contains(['*', '?']) {
            return Err(format!("there is no file {pattern}"));
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }
}

/// Another text in place of a source's main document, with what that source includes: what a `PUT`
/// would make of it.
pub struct Replaced<'s> {
    pub source: &'s dyn Source,
    pub text: String,
}

impl Source for Replaced<'_> {
    fn main(&self) -> Result<Document, String> {
        Ok(Document { text: self.text.clone(), ..self.source.main()? })
    }

    fn included(&self, pattern: &str, dir: Option<&Path>) -> Result<Vec<Document>, String> {
        self.source.included(pattern, dir)
    }

    fn development_certificate(&self) -> Option<&Path> {
        self.source.development_certificate()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::{FileSource, NewConfig, ReplaceError, Source, TextSource, glob};

    fn main(text: &str) -> NewConfig {
        NewConfig::Main(text.to_owned())
    }

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name, matches) in [
            ("*.yaml", "a.yaml", true),
            ("*.yaml", "a.yml", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxbxxa", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(glob(pattern, name), matches, "{pattern} {name}");
        }
        assert!(!glob(&"*a".repeat(30), &"b".repeat(5000)));
    }

    #[test]
    fn included_files_are_sorted_and_hidden_ones_left() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        for name in ["b.yaml", "a.yaml", ".c.yaml", "d.txt"] {
            fs::write(dir.path().join("d").join(name), name).unwrap();
        }
        fs::create_dir(dir.path().join("d/e.yaml")).unwrap();
        let source = FileSource::new(dir.path().join("t.yaml"));
        let found = source.included("d/*.yaml", Some(dir.path())).unwrap();
        let texts: Vec<_> = found.iter().map(|document| document.text.as_str()).collect();
        assert_eq!(texts, ["a.yaml", "b.yaml"]);
        assert_eq!(found[0].dir.as_deref(), Some(dir.path().join("d").as_path()));
        assert_eq!(source.included("d/none*.yaml", Some(dir.path())), Ok(Vec::new()));
        for (pattern, why) in [
            ("d/none.yaml", "there is no file"),
            ("*/a.yaml", "wildcard before its last part"),
            ("none/*.yaml", "cannot read"),
            ("..", "names no files"),
        ] {
            let out = source.included(pattern, Some(dir.path())).unwrap_err();
            assert!(out.contains(why), "{out}");
        }
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.yaml");
        fs::write(&path, "a: 1").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        // Only root may give a file to another user.
        let _ = std::os::unix::fs::chown(&path, Some(4711), Some(4712));
        let before = fs::metadata(&path).unwrap();
        FileSource::new(&path).replace(&main("a: 2")).unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_ne!(before.ino(), after.ino());
        assert_eq!(
            (after.uid(), after.gid(), after.mode()),
            (before.uid(), before.gid(), before.mode())
        );
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.yaml");
        let source = FileSource::new(&path);
        assert!(source.main().unwrap_err().contains("there is no file"));
        let missing = source.replace(&main("x")).unwrap_err();
        assert!(matches!(missing, ReplaceError::Failed(why) if why.contains("cannot write")));
        let text = TextSource::new("t", "a: 1").replace(&main("x")).unwrap_err();
        assert!(matches!(text, ReplaceError::ReadOnly(_)));
        fs::write(&path, "a: 1").unwrap();
        let set = source.replace(&NewConfig::Documents(Default::default())).unwrap_err();
        assert!(matches!(set, ReplaceError::ReadOnly(why) if why.contains("not in etcd")));
        let before = source.main().unwrap();
        std::os::unix::fs::symlink(&path, dir.path().join("link.yaml")).unwrap();
        FileSource::new(dir.path().join("link.yaml")).replace(&main("a: 2")).unwrap();
        let after = source.main().unwrap();
        assert_eq!(after.text, "a: 2");
        assert_ne!(before.version(), after.version());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left behind");
        fs::write(&path, b"\xff\xfe").unwrap();
        assert!(source.main().unwrap_err().contains("not UTF-8"));
    }
}
