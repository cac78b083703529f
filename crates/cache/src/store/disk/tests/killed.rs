//! A process that is killed while it writes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;

use super::{brought, open};
use crate::store::tests::{MIB, sample};
use crate::{Content, Object, ObjectKind};

/// Tells the test's second process where to write.
const FOLDER: &str = "TIDEGATE_TEST_DISK_FOLDER";
const SIZE: u64 = 32 * MIB;
/// Pages that are written before the last one was seen to be: far fewer than the directory holds,
/// however late the process is killed.
const AHEAD: u64 = 20;

/// The content of a page says which it is, at every location.
fn content(number: u64) -> Vec<u8> {
    let length = 200 + fastrand::Rng::with_seed(number).usize(..60_000);
    let mut content = number.to_le_bytes().repeat(length.div_ceil(8));
    content.truncate(length);
    content
}

fn page(store: &crate::store::Store, number: u64) -> Object {
    let mut object = sample(&format!("http://a/{number}")).object(store);
    if let ObjectKind::Response(response) = &mut object.kind {
        response.content = Content::Memory(Bytes::from(content(number)));
    }
    object
}

/// Writes until it is killed: run by the test below as a process of its own.
#[test]
fn writes_until_it_is_killed() {
    let Ok(directory) = std::env::var(FOLDER) else { return };
    let store = open(Path::new(&directory), SIZE);
    for number in 0.. {
        if number >= AHEAD && std::io::stdin().read_exact(&mut [0]).is_err() {
            return;
        }
        store.insert(page(&store, number), store.purge_epoch(), 32).unwrap();
        super::wait_for(&store, |stats| stats.written > number);
        println!("\nwritten {number}");
    }
}

#[test]
fn surviving_records_are_complete() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..6 {
        let name = "store::disk::tests::killed::writes_until_it_is_killed";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(FOLDER, directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut read = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let numbers = lines.filter_map(|line| line.unwrap().strip_prefix("written ")?.parse().ok());
        // Killed behind a line: somewhere in the one after it.
        let numbers = numbers.take(1 + random.usize(..200));
        let last: u64 = numbers.inspect(|_| read.write_all(b".").unwrap()).last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let store = open(directory.path(), SIZE);
        let mut survivors = 0;
        for number in 0..=last + 1 {
            let key = page(&store, number).key;
            if !brought(&store, &key) {
                assert!(number > last, "{number} of {last} was written");
                continue;
            }
            survivors += 1;
            let object = store.get(key.hash(), key.text()).unwrap();
            let Content::Memory(found) = &object.response().unwrap().content else {
                panic!("short content is in memory")
            };
            assert!(*found == content(number), "{number}");
        }
        assert!(survivors > last, "{survivors} of {last}");
        assert_eq!(store.disk_stats().unwrap().damaged, 0);
    }
}
