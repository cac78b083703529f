//! What lies on disk outlives the process.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Origin, api, cache_status, config, found_on_disk, get, is_hit, origin_response};
use rustix::io::{Errno, ReadWriteFlags};
use scenarios::{Tidegate, eventually, eventually_some};

/// One whose responses are too long to be loaded into memory.
fn repeating_paths() -> Origin {
    Origin::start(|head, _| {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let fields = "cache-control: max-age=60\r\netag: \"1\"\r\ncontent-type: text/plain\r\n";
        origin_response(200, fields, path.repeat(20_000).as_bytes())
    })
}

/// Starts a server that has one page on disk and nothing in memory.
fn with_page_on_disk(origin: &Origin, directory: &Path) -> Tidegate {
    let server = Tidegate::start(&on_disk(origin, directory));
    get(&server, "/100", "");
    written(&server, 1.0);
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));
    let server = Tidegate::start(&on_disk(origin, directory));
    found_on_disk(&server, 1);
    server
}

fn on_disk(origin: &Origin, directory: &Path) -> String {
    let disk = format!("1MiB, disk: {{ path: {}, size: 64MiB }}", directory.display());
    config(origin, "", &disk)
}

/// Waits until so many objects lie on disk.
fn written(server: &Tidegate, least: f64) {
    server.wait_for_metric("tidegate_cache_disk_writes_total", &[("cache", "pages")], least);
}

#[test]
fn a_restart_finds_what_was_stored_and_not_what_was_purged() {
    let origin = Origin::counting("cache-control: max-age=60\r\nvary: accept-language\r\n");
    let directory = tempfile::tempdir().expect("a directory");
    let config = on_disk(&origin, directory.path());
    let server = Tidegate::start(&config);
    let [german, english] = ["accept-language: de\r\n", "accept-language: en\r\n"];
    let before = [get(&server, "/a", german), get(&server, "/a", english), get(&server, "/b", "")];
    // What is purged before it is written never is.
    written(&server, 5.0);
    let (_, purged) =
        api(&server, "POST /v1/caches/pages/purge", r#"{"prefix": "http://shop.example/b"}"#);
    assert_eq!(purged["purged"], 1);
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));

    let server = Tidegate::start(&config);
    found_on_disk(&server, 3);
    for (at, fields) in [german, english].into_iter().enumerate() {
        let after = get(&server, "/a", fields);
        assert_eq!(after.body, before[at].body);
        assert!(is_hit(&after), "{after:?}");
    }
    assert_eq!(origin.fetches(), 3);
    assert!(!is_hit(&get(&server, "/b", "")));
    let (_, shown) = api(&server, "GET /v1/caches/pages", "");
    assert!(shown["disk"]["objects"].as_u64() >= Some(3), "{shown}");
}

#[test]
fn what_memory_has_no_room_for_is_read_back() {
    let origin = repeating_paths();
    let directory = tempfile::tempdir().expect("a directory");
    let server = Tidegate::start(&on_disk(&origin, directory.path()));
    let paths: Vec<String> = (100..140).map(|page| format!("/{page}")).collect();
    for (count, path) in (1..).zip(&paths) {
        get(&server, path, "");
        // What does not fit in the queue of a slow disk is not written.
        written(&server, f64::from(count));
    }
    for path in &paths {
        let again = get(&server, path, "");
        assert!(is_hit(&again) && again.body == path.repeat(20_000).as_bytes(), "{path}");
    }
    assert_eq!(origin.fetches(), 40);
}

#[test]
fn what_stays_on_disk_is_sent_in_every_form() {
    let origin = repeating_paths();
    let directory = tempfile::tempdir().expect("a directory");
    let server = with_page_on_disk(&origin, directory.path());
    let whole = "/100".repeat(20_000);
    // It is stored, though not in memory (RFC 9111 5.2.1.7).
    let stored = get(&server, "/100", "cache-control: only-if-cached\r\n");
    assert!(stored.status == 200 && is_hit(&stored) && stored.body == whole.as_bytes());
    assert_eq!(get(&server, "/101", "cache-control: only-if-cached\r\n").status, 504);
    let range = get(&server, "/100", "range: bytes=70001-70004\r\n");
    assert_eq!((range.status, &*range.body), (206, &b"100/"[..]));
    let two = get(&server, "/100", "range: bytes=1-3,79997-\r\n");
    assert_eq!(two.status, 206);
    assert_eq!(two.body.windows(7).filter(|text| text == b"\r\n\r\n100").count(), 2);
    let unchanged = get(&server, "/100", "if-none-match: \"1\"\r\n");
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    let coded = get(&server, "/100", "accept-encoding: gzip\r\n");
    assert_eq!(coded.header("content-encoding"), Some("gzip"), "{}", cache_status(&coded));
    assert!(coded.body.len() < 10_000);
    assert_eq!(origin.fetches(), 1);
}

/// The segments of a cache.
fn segments(directory: &Path) -> Vec<File> {
    let paths = directory.read_dir().expect("a directory").map(|entry| entry.expect("one").path());
    let segments = paths.filter(|path| path.extension().is_some_and(|end| end == "segment"));
    let open = |path| File::options().read(true).write(true).open(path).expect("a segment");
    segments.map(open).collect()
}

/// Has the kernel forget what it keeps of the files in memory, to the last byte. False if their
/// file system, such as overlayfs, does not say what is in memory.
fn forget(files: &[File]) -> bool {
    files.iter().all(|file| {
        file.sync_all().expect("it is written");
        let Some(last) = file.metadata().expect("a length").len().checked_sub(1) else {
            return true;
        };
        let read = eventually_some("the kernel has forgotten a file", || {
            let advice = rustix::fs::Advice::DontNeed;
            rustix::fs::fadvise(file, 0, None, advice).expect("it takes advice");
            let mut byte = [0];
            let parts = &mut [IoSliceMut::new(&mut byte)];
            rustix::io::preadv2(file, parts, last, ReadWriteFlags::NOWAIT).err()
        });
        assert!(matches!(read, Errno::AGAIN | Errno::OPNOTSUPP), "{read}");
        read == Errno::AGAIN
    })
}

#[test]
fn what_the_kernel_reads_again_is_checked_again() {
    let origin = repeating_paths();
    // Not in a directory that may be in memory.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let server = with_page_on_disk(&origin, directory.path());
    let whole = "/100".repeat(20_000);
    let reads = |least| {
        let of = [("cache", "pages")];
        server.metrics().sum("tidegate_cache_disk_reads_total", &of) >= least
    };
    let hit = || {
        let response = get(&server, "/100", "");
        assert!(is_hit(&response) && response.body == whole.as_bytes());
    };
    let files = segments(directory.path());
    hit();
    if !forget(&files) {
        return;
    }
    eventually("it is read once more", || {
        forget(&files);
        hit();
        reads(2.0)
    });
    assert_eq!(origin.fetches(), 1);
    // The disk has damaged it.
    for file in &files {
        let length = file.metadata().expect("a length").len();
        let mut content = vec![0; usize::try_from(length).expect("a short file")];
        file.read_exact_at(&mut content, 0).expect("it is read");
        let at = content.windows(8).rposition(|text| text == b"/100/100");
        if let Some(at) = at {
            file.write_all_at(b"!", at as u64).expect("it is written");
        }
    }
    forget(&files);
    let fetched = get(&server, "/100", "");
    assert!(fetched.body == whole.as_bytes(), "a damaged response was sent");
    assert_eq!(origin.fetches(), 2);
    let damaged = [("cache", "pages"), ("reason", "damaged")];
    server.wait_for_metric("tidegate_cache_disk_failures_total", &damaged, 1.0);
}
