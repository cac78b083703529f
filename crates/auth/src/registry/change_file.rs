//! The file that stores the changes of consumers which the admin API made.
//!
//! The first line says what the file is; every other line is a change, as JSON. A change is
//! appended and is on the disk before it is in force. Lines that later ones replace are removed by
//! replacing the file as a whole. Promises that a file with other content, or with a damaged line,
//! is an error and stays as it is: without the line of a deletion, a deleted consumer would be
//! accepted. A last line without its end is not a change, because no response has said that it is.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use settings::{MapKey, Node, Reader, Report, Setting as _, Span, Value};
use telemetry::event;
use telemetry::log::Level;

use super::Change;
use crate::consumers::{ConsumerSettings, Entry};

const HEADER: &str = "tidegate-consumer-changes 1\n";
/// Lines besides twice as many as there are changes, after which the file is replaced.
const REPLACED_MAX: usize = 1000;

pub(super) type Changes = HashMap<Box<str>, Change>;

pub(super) struct ChangeFile {
    path: PathBuf,
    lines: usize,
    /// An append failed and could not be undone: the next change replaces the file.
    is_damaged: bool,
}

impl ChangeFile {
    /// Reads the changes of a file, and creates it if there is none. The error is a sentence.
    pub(super) fn open(path: &Path) -> Result<(ChangeFile, Changes), String> {
        let failed = |what: &str, error: io::Error| {
            format!("cannot {what} the consumers' changes in {}: {error}", path.display())
        };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => HEADER.to_owned(),
            Err(error) => return Err(failed("read", error)),
        };
        let changes = parse(&text).map_err(|(line, why)| {
            let path = path.display();
            format!(
                "line {line} of {path}, the file of consumers' changes, {why}: repair or remove it"
            )
        })?;
        if !text.ends_with('\n') {
            event!(
                Level::Warn,
                "the last change of a consumer was not written to its end and is dropped",
                file = path.display()
            );
        }
        let mut file = ChangeFile { path: path.to_owned(), lines: 0, is_damaged: false };
        file.replace(&changes).map_err(|error| failed("write", error))?;
        Ok((file, changes))
    }

    /// True if the file should be replaced by one with this number of changes.
    pub(super) fn is_long(&self, changes: usize) -> bool {
        self.is_damaged || self.lines > changes * 2 + REPLACED_MAX
    }

    /// Stores a change. The file is as before if this fails.
    pub(super) fn append(&mut self, name: &str, change: &Change) -> io::Result<()> {
        let line = line(name, change)?;
        let mut file = OpenOptions::new().append(true).open(&self.path)?;
        let before = file.metadata()?.len();
        let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_all());
        match written {
            Ok(()) => self.lines += 1,
            Err(_) => self.is_damaged = file.set_len(before).is_err(),
        }
        written
    }

    /// Replaces the file by one with these changes; a crash leaves the old or the new one.
    pub(super) fn replace(&mut self, all: &Changes) -> io::Result<()> {
        let text = written(all)?;
        let directory = directory_of(&self.path);
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut new = self.path.clone().into_os_string();
        new.push(".new");
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        // The new name of the file is on the disk when its directory is.
        fs::File::open(directory)?.sync_all()?;
        (self.lines, self.is_damaged) = (all.len(), false);
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// The directory of a file; that of the process if the path is a name alone.
fn directory_of(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The whole text of a file.
fn written(changes: &Changes) -> io::Result<String> {
    let mut lines = changes.iter().map(|(name, change)| line(name, change));
    lines.try_fold(HEADER.to_owned(), |text, line| Ok(text + &line?))
}

/// The changes of a file, the last of each name; or the number of a line and what is wrong with it.
fn parse(text: &str) -> Result<Changes, (usize, String)> {
    let Some(lines) = text.strip_prefix(HEADER) else {
        return Err((1, "is not the first line of such a file".to_owned()));
    };
    let whole = &lines[..lines.rfind('\n').map_or(0, |end| end + 1)];
    let lines = whole.lines().enumerate();
    lines.map(|(at, line)| read_line(line).map_err(|why| (at + 2, why))).collect()
}

/// For the fuzz target: panics if the changes of a text are others when they are written and read
/// again.
pub fn reread_changes(text: &str) {
    let Ok(changes) = parse(text) else { return };
    let version = |change: &Change| change.entry.as_ref().map(|entry| entry.settings.version());
    let again = written(&changes).map(|text| parse(&text));
    let Ok(Ok(again)) = again else { panic!("changes that cannot be written and read: {text}") };
    assert_eq!(again.len(), changes.len());
    for (name, change) in &changes {
        let same = &again[name];
        assert_eq!((version(same), &same.replaces), (version(change), &change.replaces), "{name}");
    }
}

fn line(name: &str, change: &Change) -> io::Result<String> {
    let entry = match &change.entry {
        Some(entry) => Some(entry.settings.to_stored_json().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "a secret is not UTF-8 text")
        })?),
        None => None,
    };
    Ok(format!("{}\n", json!({ "name": name, "replaces": change.replaces, "entry": entry })))
}

/// The name and the change of a line; the error continues the sentence "the line …".
fn read_line(line: &str) -> Result<(Box<str>, Change), String> {
    let json: Json =
        serde_json::from_str(line).map_err(|error| format!("is not JSON ({error})"))?;
    let (Some(name), Some(entry)) = (json["name"].as_str(), json.get("entry")) else {
        return Err("has no `name` or no `entry`".to_owned());
    };
    let entry = match entry {
        Json::Null => None,
        entry => {
            let settings = read_entry(entry)
                .map_err(|why| format!("has an entry that cannot be read ({why})"))?;
            if settings.name() != name {
                return Err("has the entry of another name".to_owned());
            }
            Some(Arc::new(Entry::new(settings)))
        }
    };
    let replaces = json["replaces"].as_str().map(str::to_owned);
    Ok((name.into(), Change { replaces, entry }))
}

fn read_entry(entry: &Json) -> Result<ConsumerSettings, String> {
    let mut report = Report::new();
    let settings = ConsumerSettings::read(&node(entry), &mut Reader::new(&mut report));
    settings.filter(|_| report.is_empty()).ok_or_else(|| {
        let errors = report.errors();
        errors.iter().map(|error| error.message.as_str()).collect::<Vec<_>>().join("; ")
    })
}

fn node(json: &Json) -> Node {
    match json {
        Json::Null => Node::made(Value::Null),
        Json::Bool(_) | Json::Number(_) => Node::plain(json.to_string()),
        Json::String(text) => Node::quoted(text),
        Json::Array(items) => Node::made(Value::List(items.iter().map(node).collect())),
        Json::Object(members) => {
            let key = |name: &String| MapKey { name: name.clone(), span: Span::NOWHERE };
            let entries = members.iter().map(|(name, value)| (key(name), node(value)));
            Node::made(Value::Map(entries.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use settings::node;

    use super::*;
    use crate::consumers::ConsumerSet;
    use crate::password::tests::BCRYPT;
    use crate::registry::{ChangeError, Registry};

    fn registry(path: &Path, configured: &Node) -> Registry {
        let registry = Registry::default();
        registry.open_changes(path).unwrap();
        install(&registry, configured);
        registry
    }

    fn install(registry: &Registry, configured: &Node) {
        let mut report = Report::new();
        let mut reader = Reader::new(&mut report);
        let entries = Vec::read(configured, &mut reader).unwrap();
        registry.install(&Arc::new(ConsumerSet::new(entries, &mut reader)));
        registry.remove_ended_changes().unwrap();
    }

    fn put(registry: &Registry, entry: &Node) -> String {
        registry.put(settings::read(entry).unwrap(), |_| true).unwrap().0
    }

    fn versions(registry: &Registry) -> Vec<(String, String)> {
        let version = |name: String| (registry.get(&name).unwrap().1, name);
        registry.names("", 100).into_iter().map(version).collect()
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    fn error(path: &Path) -> String {
        Registry::default().open_changes(path).unwrap_err()
    }

    #[test]
    fn a_file_may_be_a_name_alone() {
        assert_eq!(directory_of(Path::new("changes")), Path::new("."));
        assert_eq!(directory_of(Path::new("a/changes")), Path::new("a"));
    }

    #[test]
    fn changes_outlive_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/consumers.changes");
        let configured = node!([
            { "name": "alice", "keys": [{ "key": "one" }] }, { "name": "bob" }, { "name": "dan" },
        ]);
        let first = registry(&path, &configured);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        put(&first, &node!({ "name": "carol", "keys": [{ "key": "first-of-carol" }] }));
        put(
            &first,
            &node!({
                "name": "carol", "groups": ["gold"], "labels": { "team": "shop \" ü" },
                "keys": [{ "key": "second-of-carol" }], "password": BCRYPT,
                "jwt": { "subject": "7" },
                "certificates": [{ "subject": "CN=carol" }],
                "signature_keys": [{
                    "id": "k", "algorithm": "hmac-sha256",
                    "secret": "0123456789abcdef0123456789abcdef"
                }],
                "limits": { "rate": "5/s", "burst": 9, "quotas": { "monthly": 1000 } }
            }),
        );
        put(&first, &node!({ "name": "alice", "groups": ["gold"] }));
        first.delete("bob", |_| true).unwrap();
        assert!(!text(&path).contains("of-carol"));
        let second = registry(&path, &configured);
        assert_eq!(versions(&second), versions(&first));
        assert_eq!(second.names("", 9), ["alice", "carol", "dan"]);
        // What was replaced is gone from the file, and the rest is still there.
        assert_eq!(text(&path).lines().count(), 4);
        assert_eq!(versions(&registry(&path, &configured)), versions(&first));
    }

    #[test]
    fn a_change_ends_with_the_entry_that_it_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("changes");
        let (before, after) = (node!([{ "name": "a" }]), node!([{ "name": "a", "groups": ["g"] }]));
        let first = registry(&path, &before);
        put(&first, &node!({ "name": "a", "keys": [{ "key": "k" }] }));
        put(&first, &node!({ "name": "b" }));
        // The configuration changes while the server runs, or between two runs: the change ends for
        // good.
        install(&first, &after);
        assert_eq!(text(&path).lines().count(), 2);
        assert_eq!(registry(&path, &before).get("a").unwrap().0.to_string(), r#"{"name":"a"}"#);
        put(&first, &node!({ "name": "a", "keys": [{ "key": "k" }] }));
        let second = registry(&path, &before);
        assert_eq!(second.get("a").unwrap().0.to_string(), r#"{"name":"a"}"#);
        assert_eq!(text(&path).lines().count(), 2);
        // The credential is free again.
        put(&second, &node!({ "name": "b", "keys": [{ "key": "k" }] }));
        assert_eq!(versions(&registry(&path, &before)), versions(&second));
    }

    #[test]
    fn a_change_that_cannot_be_stored_is_not_in_force() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("changes");
        let one = registry(&path, &node!([{ "name": "a" }]));
        fs::remove_file(&path).unwrap();
        let entry = || settings::read(&node!({ "name": "b" })).unwrap();
        let refused = one.put(entry(), |_| true);
        assert!(matches!(refused, Err(ChangeError::NotStored(why)) if why.contains("changes")));
        let refused = one.delete("a", |_| true);
        assert!(matches!(refused, Err(ChangeError::NotStored(_))));
        assert_eq!(one.names("", 9), ["a"]);
        fs::create_dir(&path).unwrap();
        assert!(error(&path).contains("cannot read"), "{}", error(&path));
    }

    #[test]
    fn an_append_that_is_cut_off_is_dropped_and_other_damage_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("changes");
        let none = node!([]);
        put(&registry(&path, &none), &node!({ "name": "a" }));
        let whole = text(&path);
        for end in whole.rfind("\n{").unwrap() + 1..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            assert!(registry(&path, &none).get("a").is_none(), "{end}");
            assert_eq!(text(&path), HEADER);
        }
        for (damaged, why) in [
            ("listeners: {}\n".to_owned(), "line 1 of"),
            (HEADER[..10].to_owned(), "line 1 of"),
            (whole.replace("\"a\"", "\"a"), "line 2 of"),
            (whole.clone() + "{}\n" + &whole, "line 3 of"),
            (whole.replacen("\"a\"", "\"b\"", 1), "the entry of another name"),
            (whole.replace("{\"name\"", "{\"nam\""), "line 2 of"),
        ] {
            fs::write(&path, &damaged).unwrap();
            let error = error(&path);
            assert!(error.contains(why) && error.contains("changes"), "{error}");
            assert_eq!(text(&path), damaged);
        }
        let entry = |name: &str| {
            let keys = json!([{ "sha256": "0".repeat(64) }]);
            let entry = json!({ "name": name, "keys": keys });
            format!("{}\n", json!({ "name": name, "entry": entry }))
        };
        fs::write(&path, HEADER.to_owned() + &entry("a") + &entry("b")).unwrap();
        assert!(error(&path).contains("the same key"), "{}", error(&path));
    }

    #[test]
    fn the_file_is_replaced_when_most_of_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("changes");
        let one = registry(&path, &node!([]));
        let mut longest = 0;
        for number in 0..REPLACED_MAX + 20 {
            put(&one, &node!({ "name": "a", "groups": [(number.to_string())] }));
            longest = longest.max(text(&path).lines().count());
        }
        assert_eq!(longest, REPLACED_MAX + 4);
        assert!(text(&path).lines().count() < 30);
        assert_eq!(versions(&registry(&path, &node!([]))), versions(&one));
    }
}
