//! The section `consumers`, the registry, and a worker's view of it.

use std::rc::Rc;
use std::sync::Arc;

use plugin::WorkerContext;
use settings::{Node, Reader, Report, Setting, Spanned, node};

use super::{ChangeError, Directory, Registry};
use crate::consumers::{ConsumerSet, ConsumerSettings};
use crate::credential::{CredentialId, CredentialKind};

fn set(entries: &Node) -> Result<Arc<ConsumerSet>, String> {
    let mut report = Report::new();
    let mut reader = Reader::new(&mut report);
    let entries = Vec::<Spanned<ConsumerSettings>>::read(entries, &mut reader).unwrap_or_default();
    let set = ConsumerSet::new(entries, &mut reader);
    if report.is_empty() { Ok(Arc::new(set)) } else { Err(report.render()) }
}

fn entry(entry: &Node) -> ConsumerSettings {
    settings::read(entry).unwrap()
}

fn key(text: &str) -> CredentialId {
    CredentialId::of(CredentialKind::Key, text.as_bytes())
}

/// The names of the consumers of these keys, as a worker finds them.
fn owners(directory: &Directory, keys: &[&str]) -> Vec<String> {
    let name = |text: &&str| {
        let consumer = directory.find(&key(text));
        consumer.map_or_else(String::new, |consumer| consumer.name.to_string())
    };
    keys.iter().map(name).collect()
}

#[test]
fn the_declaration_is_valid() {
    settings::verify::<ConsumerSettings>().unwrap();
}

#[test]
fn an_entry_is_found_by_each_of_its_credentials() {
    let worker = WorkerContext::default();
    let registry = worker.shared.get((), Registry::default);
    let directory = Directory::of(&worker);
    let set = set(&node!([
        { "name": "alice", "groups": ["gold"], "labels": { "team": "shop" },
          "keys": [{ "key": "one" }, { "key": "two" }] },
        { "name": "bob", "certificates": [{ "subject": "CN=bob" }] },
    ]));
    registry.install(&set.unwrap());
    assert_eq!(owners(&directory, &["one", "two", "three", "alice"]), ["alice", "alice", "", ""]);
    let alice = directory.find(&key("one")).unwrap();
    assert_eq!((&*alice.groups[0], alice.label("team")), ("gold", Some("shop")));
    let subject = CredentialId::of(CredentialKind::CertificateSubject, b"CN=bob");
    assert_eq!(&*directory.find(&subject).unwrap().name, "bob");
    // A consumer without an entry has only its name.
    let id = CredentialId::of(CredentialKind::Name, b"carol");
    assert_eq!(&*directory.named(&id, "carol").name, "carol");
}

#[test]
fn two_entries_share_neither_name_nor_credential() {
    for (entries, why) in [
        (node!([{ "name": "a" }, { "name": "a" }]), "the consumer \"a\" is declared twice"),
        (
            node!([
                { "name": "a", "keys": [{ "key": "k" }] },
                { "name": "b", "keys": [{ "key": "k" }] },
            ]),
            "\"a\" and \"b\" have the same key",
        ),
        (
            node!([{ "name": "a", "keys": [{ "key": "k" }, { "key": "k" }] }]),
            "the consumer \"a\" has a key twice",
        ),
        (
            node!([
                { "name": "a", "certificates": [{ "name": "x.test" }] },
                { "name": "b", "certificates": [{ "name": "x.test" }] },
            ]),
            "\"a\" and \"b\" have the same certificate",
        ),
        (node!([{ "name": "a b" }]), "cannot be the name of a consumer"),
        (node!([{ "name": "a", "groups": [""] }]), "a group has a name"),
        (node!([{ "name": "a", "keys": [{}] }]), "either sha256 or key"),
        (node!([{ "name": "a", "kyes": [] }]), "did you mean \"keys\""),
    ] {
        let report = set(&entries).err().unwrap();
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
}

#[test]
fn a_change_applies_at_once_and_as_a_whole() {
    let worker = WorkerContext::default();
    let registry = worker.shared.get((), Registry::default);
    let directory = Directory::of(&worker);
    registry.install(&set(&node!([{ "name": "alice", "keys": [{ "key": "old" }] }])).unwrap());
    assert_eq!(owners(&directory, &["old", "new"]), ["alice", ""]);
    let (_, before) = registry.get("alice").unwrap();
    let changed = entry(&node!({ "name": "alice", "keys": [{ "key": "new" }] }));
    let stale = registry.put(changed.clone(), |version| version == Some("other"));
    assert_eq!(stale, Err(ChangeError::Stale { current: before.clone() }));
    assert_eq!(owners(&directory, &["old", "new"]), ["alice", ""]);
    let (after, is_new) = registry.put(changed, |version| version == Some(&*before)).unwrap();
    assert!(!is_new && after != before);
    assert_eq!(owners(&directory, &["old", "new"]), ["", "alice"]);
    // The old key is free for another consumer, the new one is not.
    let bob = |key: &str| entry(&node!({ "name": "bob", "keys": [{ "key": key }] }));
    let taken = ChangeError::Taken { by: "alice".to_owned(), what: "key" };
    assert_eq!(registry.put(bob("new"), |_| true), Err(taken));
    assert!(registry.put(bob("old"), |version| version.is_none()).unwrap().1);
    assert_eq!(owners(&directory, &["old", "new"]), ["bob", "alice"]);
    assert_eq!(registry.names("", 10), ["alice", "bob"]);
    registry.delete("alice", |_| true).unwrap();
    assert_eq!(registry.delete("alice", |_| true), Err(ChangeError::NoConsumer));
    assert_eq!(owners(&directory, &["old", "new"]), ["bob", ""]);
    assert_eq!(registry.names("", 10), ["bob"]);
}

#[test]
fn a_reload_keeps_changes_of_entries_that_it_does_not_change() {
    let worker = WorkerContext::default();
    let registry = worker.shared.get((), Registry::default);
    let directory = Directory::of(&worker);
    let alice = |key: &str| node!([{ "name": "alice", "keys": [{ "key": key }] }]);
    registry.install(&set(&alice("file")).unwrap());
    let put = |name: &str, key: &str| {
        let settings = entry(&node!({ "name": name, "keys": [{ "key": key }] }));
        registry.put(settings, |_| true).unwrap();
    };
    put("alice", "api");
    put("carol", "extra");
    put("dave", "later");
    registry.install(&set(&alice("file")).unwrap());
    assert_eq!(owners(&directory, &["file", "api", "extra"]), ["", "alice", "carol"]);
    // The entry of the file changes, and gives a key to another consumer than the API did.
    let changed = node!([
        { "name": "alice", "keys": [{ "key": "rotated" }] },
        { "name": "erin", "keys": [{ "key": "later" }] },
    ]);
    registry.install(&set(&changed).unwrap());
    let found = owners(&directory, &["file", "api", "rotated", "extra", "later"]);
    assert_eq!(found, ["", "", "alice", "carol", "erin"]);
    assert!(registry.get("dave").is_none());
}

#[test]
fn a_version_follows_secrets_that_are_not_shown() {
    let registry = Registry::default();
    let put = |key: &str| {
        let settings = entry(&node!({ "name": "a", "keys": [{ "key": key }] }));
        registry.put(settings, |_| true).unwrap().0
    };
    let one = put("topsecret");
    assert_ne!(put("other"), one);
    assert_eq!(put("topsecret"), one);
    assert!(!registry.get("a").unwrap().0.to_string().contains("topsecret"));
}

#[test]
fn what_a_worker_remembers_is_bounded() {
    let worker = WorkerContext::default();
    let directory = Directory::of(&worker);
    for number in 0..super::REMEMBERED + 10 {
        let name = number.to_string();
        let id = CredentialId::of(CredentialKind::Name, name.as_bytes());
        assert_eq!(&*directory.named(&id, &name).name, name);
    }
    assert!(directory.remembered.borrow().len() <= super::REMEMBERED);
    assert!(Rc::ptr_eq(&directory, &Directory::of(&worker)));
}

#[test]
fn a_subject_may_have_the_name_of_a_consumer_without_an_entry() {
    let worker = WorkerContext::default();
    let registry = worker.shared.get((), Registry::default);
    let directory = Directory::of(&worker);
    let name = |name: &str| CredentialId::of(CredentialKind::Name, name.as_bytes());
    let token = CredentialId::of(CredentialKind::Subject, b"carol");
    // Another filter has accepted the name.
    assert_eq!(&*directory.named(&name("carol"), "carol").name, "carol");
    assert!(directory.subject(&token, "carol", false).is_ok());
    registry.put(entry(&node!({ "name": "carol", "keys": [{ "key": "c" }] })), |_| true).unwrap();
    assert!(directory.subject(&token, "carol", false).is_err());
}
