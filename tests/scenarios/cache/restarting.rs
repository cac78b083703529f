//! The tier on disk: what it holds survives a server that is killed.

use super::{Origin, api, config, get, is_hit};
use scenarios::{Launch, Tidegate};
use tempfile::TempDir;

fn start(origin: &Origin, directory: &TempDir) -> Tidegate {
    let path = directory.path().join("tier");
    let memory = format!("8MiB, disk: {{ path: {:?}, size: 64MiB }}", path.display().to_string());
    Launch::new(&config(origin, "", &memory)).start()
}

/// Waits until so many objects are on the disk.
fn written(server: &Tidegate, count: u64) {
    scenarios::eventually(&format!("{count} objects are on the disk"), || {
        let (_, shown) = api(server, "GET /v1/caches/pages", "");
        assert_eq!(shown["disk"]["failed"], serde_json::Value::Null, "{shown}");
        shown["disk"]["objects"].as_u64().unwrap_or(0) >= count
    });
}

#[test]
fn what_is_on_disk_is_there_after_a_kill() {
    let directory = TempDir::new().expect("a temporary directory");
    let origin = Origin::counting("cache-control: max-age=600\r\n");
    let server = start(&origin, &directory);
    (0..5).for_each(|n| drop(get(&server, &format!("/{n}"), "")));
    written(&server, 5);
    server.signal("KILL");
    server.wait();
    let server = start(&origin, &directory);
    written(&server, 5);
    for n in 0..5 {
        let again = get(&server, &format!("/{n}"), "");
        assert!(is_hit(&again) && again.text() == format!("answer {n}"), "{again:?}");
    }
    assert_eq!(origin.fetches(), 5);
}
