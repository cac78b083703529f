//! A cache that is asked for much more than it has room for: no response is wrong, the origin is
//! asked far less than the cache, and the memory that the process takes is what it was told.
//!
//! As long as [`REQUESTS`] take, or what `CACHE_SOAK_SECONDS` says (`make soak` says ten
//! minutes).

use scenarios::{Connection, HttpResponse, Tidegate, Upstream};
use std::fs;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SECONDS: u64 = 5;
/// However slow the machine is: so many requests fetch more than the cache has room for.
const REQUESTS: u64 = 20_000;
/// So many fetch more than the small cache and its disk have room for.
const REQUESTS_SMALL: u64 = 6_000;
/// So many need all the memory that serving takes without a cache.
const REQUESTS_UNCACHED: u64 = 3_000;
const CLIENTS: u64 = 6;
/// There are so many URLs; all their bodies are four times what the cache may hold.
const URLS: u64 = 24_000;
const BODY_BYTES_MIN: f64 = 1024.0;
const BODY_BYTES_MAX: f64 = 300.0 * 1024.0;
/// What a cache has that is not told otherwise.
const MEMORY_BYTES: u64 = 256 << 20;
/// Additional memory that requests in flight may use.
const BESIDE_PERCENT: u64 = 10;

fn config(origin: &Upstream, memory: &str) -> String {
    let address = origin.address();
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams: {{ u: {{ servers: ["{address}"], timeouts: {{ connect: 15s, idle: 5s }} }} }}
caches: {{ pages: {{ memory: {memory} }} }}
routes:
  - name: past
    match: {{ path: "/past/{{*rest}}" }}
    handler: {{ upstream: u }}
  - name: cached
    match: {{ path: "/kept/{{*rest}}" }}
    filters: [{{ cache: {{ store: pages }} }}]
    handler: {{ upstream: u }}
  - name: each
    match: {{ path: "/each/{{*rest}}" }}
    filters: [{{ cache: {{ store: pages, codings: {{ best_after: 0 }} }} }}]
    handler: {{ upstream: u }}
"#
    )
}

/// A URL: the n-th is asked for about 1/n as often as the first (Zipf).
fn random_url(random: &mut fastrand::Rng) -> u64 {
    ((URLS as f64).powf(random.f64()) as u64).min(URLS) - 1
}

/// What bodies are cut from: text that compresses, and noise that does not.
struct Content {
    text: Vec<u8>,
    noise: Vec<u8>,
}

impl Content {
    fn new() -> Self {
        let mut random = fastrand::Rng::with_seed(7);
        let length = BODY_BYTES_MAX as usize + URLS as usize * 8;
        let (mut text, mut noise) = (Vec::new(), Vec::new());
        while text.len() < length {
            text.extend_from_slice(format!("word {:x}, ", random.u64(..5_000)).as_bytes());
        }
        while noise.len() < length {
            noise.extend_from_slice(&random.u64(..).to_le_bytes());
        }
        Self { text, noise }
    }

    /// The body of a URL, which no other has, and whether it is text.
    fn body(&self, url: u64) -> (Vec<u8>, bool) {
        let mut random = fastrand::Rng::with_seed(url);
        let length = BODY_BYTES_MIN * (BODY_BYTES_MAX / BODY_BYTES_MIN).powf(random.f64());
        let is_text = random.u64(..2) == 0;
        let pool = if is_text { &self.text } else { &self.noise };
        let from = url as usize * 8;
        let mark = format!("<{url}>");
        let body = [mark.as_bytes(), &pool[from..from + length as usize], mark.as_bytes()];
        (body.concat(), is_text)
    }
}

/// Answers what its URL says, and counts.
fn origin(content: Arc<Content>, asked: Arc<AtomicU64>) -> Upstream {
    Upstream::start(move |peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let target = head.split(' ').nth(1).expect("a target");
            let url: u64 = target[6..].parse().expect("a number");
            asked.fetch_add(1, Ordering::Relaxed);
            // One in 16 has to be asked about again and again.
            let seconds = if url % 16 == 5 { 1 } else { 6_000 };
            let fields = format!("cache-control: max-age={seconds}\r\netag: \"{url}\"\r\n");
            let known = head.to_ascii_lowercase().contains(&format!("if-none-match: \"{url}\""));
            let sent = if known {
                peer.try_send(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"))
            } else {
                let (body, is_text) = content.body(url);
                let kind = if is_text { "text/plain" } else { "image/png" };
                let length = body.len();
                let fields = format!("{fields}content-type: {kind}\r\ncontent-length: {length}");
                let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
                peer.try_send([head.as_bytes(), &body].concat())
            };
            if !sent {
                return;
            }
        }
    })
}

fn unzipped(response: &HttpResponse) -> Vec<u8> {
    let mut plain = Vec::new();
    match response.header("content-encoding") {
        None => plain.extend_from_slice(&response.body),
        Some("gzip") => {
            let mut reader = flate2::read::GzDecoder::new(&response.body[..]);
            reader.read_to_end(&mut plain).expect("whole gzip");
        }
        other => panic!("{other:?} was not asked for"),
    }
    plain
}

/// One request, in one of the ways that clients ask.
fn visit(client: &mut Connection, way: &str, random: &mut fastrand::Rng, content: &Content) {
    let url = random_url(random);
    let (body, _) = content.body(url);
    let (fields, part) = match random.u64(..16) {
        0 => (format!("if-none-match: \"{url}\"\r\n"), None),
        1 => ("range: bytes=100-899\r\n".to_owned(), Some(100..900)),
        2..=8 => ("accept-encoding: gzip\r\n".to_owned(), None),
        9 if way == "each" => ("accept-encoding: br\r\n".to_owned(), None),
        10 if way == "each" => ("accept-encoding: zstd\r\n".to_owned(), None),
        _ => (String::new(), None),
    };
    client.send(format!("GET /{way}/{url} HTTP/1.1\r\nhost: soak\r\n{fields}\r\n"));
    let response = client.read_response();
    let of = |what: &str| format!("{what} of /{way}/{url} with {fields:?}: {:?}", response.headers);
    match part {
        // The origin does not cut parts.
        Some(part) if way != "past" => {
            assert!(response.status == 206 && response.body == body[part], "{}", of("part"));
        }
        _ if fields.starts_with("if-none-match") => assert_eq!(response.status, 304, "{}", of("")),
        _ if fields.ends_with("br\r\n") || fields.ends_with("zstd\r\n") => {
            assert_eq!(response.status, 200, "{}", of("encoding"));
        }
        _ => assert!(response.status == 200 && unzipped(&response) == body, "{}", of("body")),
    }
}

/// Asks and goes before it has read the response.
fn leave(server: &Tidegate, way: &str, random: &mut fastrand::Rng) {
    let mut client = server.connect("web");
    client.send(format!("GET /{way}/{} HTTP/1.1\r\nhost: soak\r\n\r\n", random_url(random)));
    client.read_exactly(500);
}

/// Asks with all clients at once, for so long and so often at least; how often.
fn load(server: &Tidegate, way: &str, content: &Content, span: Duration, least: u64) -> u64 {
    let (over, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (over, requests) = (&over, &requests);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(number);
                let mut client = server.connect("web");
                while !over.load(Ordering::Relaxed) {
                    match random.u64(..64) {
                        0 => leave(server, way, &mut random),
                        1 => client = server.connect("web"),
                        _ => visit(&mut client, way, &mut random, content),
                    }
                    requests.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let end = Instant::now() + span;
        while Instant::now() < end || requests.load(Ordering::Relaxed) < least {
            // The load is the span itself.
            std::thread::sleep(Duration::from_millis(100));
        }
        over.store(true, Ordering::Relaxed);
    });
    requests.into_inner()
}

/// Bytes that the process takes: what it has mapped of its own, and its files that are memory.
/// Those are not mapped, so that no Rss counts them: each says itself what it takes.
fn taken(server: &Tidegate) -> (u64, u64) {
    let proc = format!("/proc/{}", server.id());
    let status = fs::read_to_string(format!("{proc}/status")).expect("a Linux machine");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib: u64 = line.expect("RssAnon").trim().trim_end_matches(" kB").parse().expect("KiB");
    let mut files = 0;
    for entry in fs::read_dir(format!("{proc}/fd")).expect("its descriptors").flatten() {
        // It may have been closed since.
        let Ok(link) = fs::read_link(entry.path()) else { continue };
        if link.to_string_lossy().starts_with("/memfd:")
            && let Ok(facts) = fs::metadata(entry.path())
        {
            files += std::os::unix::fs::MetadataExt::blocks(&facts) * 512;
        }
    }
    (kib * 1024, files)
}

#[test]
fn memory_is_what_was_configured() {
    let told = std::env::var("CACHE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let span = Duration::from_secs(told.unwrap_or(SECONDS));
    let (content, asked) = (Arc::new(Content::new()), Arc::new(AtomicU64::new(0)));
    let origin = origin(Arc::clone(&content), Arc::clone(&asked));
    let server = Tidegate::start(&config(&origin, &format!("{MEMORY_BYTES}B")));
    // What serving takes, with an empty cache.
    load(&server, "past", &content, span / 8, REQUESTS_UNCACHED);
    let (empty, _) = taken(&server);
    asked.store(0, Ordering::Relaxed);
    let requests = load(&server, "kept", &content, span, REQUESTS);
    let (own, files) = taken(&server);
    let asked = asked.load(Ordering::Relaxed);
    let metrics = server.metrics();
    let of_cache = |name: &str| metrics.sum(name, &[("cache", "pages")]) as u64;
    let held = of_cache("tidegate_cache_memory_bytes");
    let removed = of_cache("tidegate_cache_removed_total");
    println!("{requests} requests, {asked} to the origin; {removed} objects removed");
    println!("{own} bytes and {files} in files; {empty} when empty; says that it holds {held}");
    assert!(asked * 2 < requests, "the origin was asked {asked} times for {requests} requests");
    assert!(removed > 0 && held <= MEMORY_BYTES && held > MEMORY_BYTES / 10 * 9, "{held} held");
    let grown = (own + files).saturating_sub(empty);
    let most = MEMORY_BYTES / 100 * (100 + BESIDE_PERCENT);
    assert!(grown <= most, "{grown} bytes more than when empty, of {most}");
}

/// The most memory, as [`taken`] counts it, while `run` runs.
fn peak(server: &Tidegate, run: impl FnOnce()) -> u64 {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut peak = 0;
            while !over.load(Ordering::Relaxed) {
                let (own, files) = taken(server);
                peak = peak.max(own + files);
                // How often it is looked is all that this decides.
                std::thread::sleep(Duration::from_millis(50));
            }
            peak
        });
        run();
        over.store(true, Ordering::Relaxed);
        watch.join().expect("no panic while watching")
    })
}

/// The table in docs/guide/caching.md, without encodings at their best level: a small cache, whose
/// parts besides `memory` are larger than it.
#[test]
fn a_small_cache_with_a_disk_takes_at_most_what_the_guide_says() {
    const MOST: u64 = 69 << 20;
    let (content, asked) = (Arc::new(Content::new()), Arc::new(AtomicU64::new(0)));
    let origin = origin(Arc::clone(&content), Arc::clone(&asked));
    let directory = tempfile::tempdir().expect("a directory");
    let disk = format!("16MiB, disk: {{ path: {}, size: 64MiB }}", directory.path().display());
    let server = Tidegate::start(&config(&origin, &disk));
    load(&server, "past", &content, Duration::ZERO, REQUESTS_UNCACHED);
    let (empty, _) = taken(&server);
    let peak = peak(&server, || {
        load(&server, "each", &content, Duration::ZERO, REQUESTS_SMALL);
    });
    let metrics = server.metrics();
    let read = metrics.sum("tidegate_cache_disk_reads_total", &[("cache", "pages")]);
    let made = metrics.sum("tidegate_cache_derive_seconds_count", &[("cache", "pages")]);
    println!("{empty} bytes when empty, {peak} at most; {read} read from disk, {made} encoded");
    assert!(read > 0.0 && made > 0.0, "the load does not do what it is for");
    let grown = peak.saturating_sub(empty);
    assert!(grown <= MOST, "{grown} bytes more than when empty, of {MOST}");
}
