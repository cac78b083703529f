//! The cache between real neighbours: nginx behind it, Varnish before it, a browser as its client.

use crate::tools::{Browser, command, gateway, has, long_text, nginx};
use scenarios::{HttpResponse, Process, Tidegate, Upstream};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

const NGINX: &str = r"
daemon off; master_process off; pid nginx.pid; error_log stderr notice;
events { worker_connections 256; }
http {
  log_format asked '$request_method $uri $status $http_if_none_match.';
  access_log asked.log asked;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  types { text/plain txt; }
  server {
    listen unix:nginx.sock;
    root html;
    location /kept/ {
      alias html/; add_header Cache-Control 'max-age=600';
      gzip on; gzip_types text/plain; gzip_proxied any;
    }
    location /checked/ { alias html/; add_header Cache-Control 'max-age=0, must-revalidate'; }
    location /varied/ {
      return 200 $http_accept_language;
      add_header Cache-Control max-age=600; add_header Vary Accept-Language;
    }
  }
}
";

/// Everything from the server through a cache.
fn cached(server: &str) -> Tidegate {
    gateway(&format!(
        "upstreams: {{ u: {{ servers: [\"{server}\"] }} }}\n\
         caches: {{ pages: {{ memory: 64MiB }} }}\n\
         routes:\n  - name: all\n    match: {{ path: \"/{{*rest}}\" }}\n    \
         filters: [{{ cache: {{ store: pages }} }}]\n    handler: {{ upstream: u }}\n"
    ))
}

struct Nginx {
    server: Tidegate,
    text: String,
    // Dropped in this order: the process must be gone before its directory.
    _process: Process,
    directory: TempDir,
}

impl Nginx {
    fn start() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let text = long_text(3000);
        let (process, address) = nginx(&directory, NGINX, &text);
        let server = cached(&address);
        Self { server, text, _process: process, directory }
    }

    fn get(&self, path: &str, fields: &str) -> HttpResponse {
        let request = format!("GET {path} HTTP/1.1\r\nhost: shop.example\r\n{fields}\r\n");
        self.server.exchange("web", request)
    }

    /// The requests that nginx has logged. It logs a request after the last byte of its response
    /// and before it reads the next one: here one for a URL of its own, which is not returned.
    fn requests(&self) -> Vec<String> {
        const MARKER: &str = "/marker/";
        static MARKERS: AtomicUsize = AtomicUsize::new(0);
        let marker = format!("{MARKER}{}", MARKERS.fetch_add(1, Ordering::Relaxed));
        assert_eq!(self.get(&marker, "").status, 404);
        let log = scenarios::eventually_some("nginx logs the last request", || {
            let path = self.directory.path().join("asked.log");
            let log = fs::read_to_string(path).unwrap_or_default();
            log.contains(&format!("GET {marker} 404 ")).then_some(log)
        });
        let lines = log.lines().filter(|line| !line.contains(MARKER));
        lines.map(|line| line.replace("\\x22", "\"")).collect()
    }
}

#[test]
fn nginx_gets_one_request_in_gzip_and_clients_get_what_they_take() {
    if !has("nginx") {
        return;
    }
    let nginx = Nginx::start();
    for fields in ["", "accept-encoding: gzip\r\n", "accept-encoding: br\r\n", ""] {
        let response = nginx.get("/kept/text.txt", fields);
        assert_eq!(response.status, 200);
        let coding = fields.trim_end().strip_prefix("accept-encoding: ");
        assert_eq!(response.header("content-encoding"), coding);
        if coding.is_none() {
            assert!(response.body == nginx.text.as_bytes());
        }
    }
    // A part of the whole, though nginx sent it compressed.
    let part = nginx.get("/kept/text.txt", "range: bytes=10-19\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, &nginx.text[10..20]));
    assert_eq!(nginx.requests(), ["GET /kept/text.txt 200 -."]);
}

#[test]
fn what_nginx_confirms_is_not_sent_again() {
    if !has("nginx") {
        return;
    }
    let nginx = Nginx::start();
    let first = nginx.get("/checked/text.txt", "");
    let etag = first.header("etag").expect("nginx tags files").to_owned();
    for _ in 0..2 {
        let again = nginx.get("/checked/text.txt", "");
        assert_eq!((again.status, again.header("etag")), (200, Some(&*etag)));
        assert!(again.body == nginx.text.as_bytes());
    }
    let requests = nginx.requests();
    assert_eq!(requests[0], "GET /checked/text.txt 200 -.");
    assert_eq!(requests[1..], [format!("GET /checked/text.txt 304 {etag}."), requests[1].clone()]);
    // A file that has changed is sent.
    fs::write(nginx.directory.path().join("html/text.txt"), "changed, and shorter")
        .expect("a file");
    assert_eq!(nginx.get("/checked/text.txt", "").text(), "changed, and shorter");
}

#[test]
fn varnish_before_it_believes_its_age_and_varies_with_it() {
    if !(has("nginx") && has("varnishd") && has("curl")) {
        return;
    }
    let nginx = Nginx::start();
    let directory = nginx.directory.path();
    let address = nginx.server.address("web");
    let vcl = format!(
        "vcl 4.1;\nbackend default {{ .host = \"{}\"; .port = \"{}\"; }}\n",
        address.ip(),
        address.port()
    );
    fs::write(directory.join("site.vcl"), vcl).expect("a file");
    let path = |name: &str| directory.join(name).display().to_string();
    let (work, socket) = (path("varnish"), path("varnish.sock"));
    let mut varnish = command("varnishd", directory);
    varnish.args(["-F", "-j", "none", "-n", &work, "-a", &socket, "-f", &path("site.vcl")]);
    varnish.args(["-s", "malloc,16m"]);
    let process = Process::start(&mut varnish);
    let ready = process.wait_for_line(|line| line.contains("Child launched OK").then_some(()));
    assert!(ready.is_some(), "varnish ended: {:?}", process.log());
    let curl = |language: &str| {
        let language = format!("accept-language: {language}");
        let arguments = ["-sS", "-i", "--retry", "20", "--retry-all-errors", "--retry-delay", "1"];
        let target = ["--unix-socket", &socket, "-H", &language, "http://shop.example/varied/"];
        crate::tools::run("curl", directory, &[&arguments[..], &target].concat()).stdout
    };
    for language in ["de", "en", "de", "en"] {
        let response = curl(language).to_ascii_lowercase();
        assert!(response.starts_with("http/1.1 200") && response.ends_with(language), "{response}");
        assert!(
            response.contains("\nage: ") && response.contains("\ncache-status: "),
            "{response}"
        );
    }
    assert_eq!(nginx.requests().len(), 2, "{:?}", nginx.requests());
}

/// Fetches as a page does that is loaded, loaded again, and come back to.
const PAGE: &str = r#"<!doctype html><title>wait</title><body><script>
(async () => {
  const said = [];
  for (const mode of ["default", "default", "no-store", "no-cache", "reload", "force-cache"]) {
    const answer = await fetch("/data", { cache: mode });
    said.push(mode + " " + answer.status + " " + (await answer.text()));
  }
  document.body.innerHTML = "<pre id=said></pre>";
  document.getElementById("said").textContent = said.join("|") + "|";
})();
</script>"#;

#[test]
fn a_browser_loads_reloads_and_comes_back() {
    let Some(browser) = Browser::found() else { return };
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let origin = Upstream::start(move |peer| {
        while !peer.at_end() {
            let head = peer.read_head().to_ascii_lowercase();
            let (kind, body, fields) = if head.starts_with("get /data") {
                let number = counted.fetch_add(1, Ordering::Relaxed);
                ("text/plain", format!("answer {number}"), "cache-control: max-age=600\r\n")
            } else {
                ("text/html", PAGE.to_owned(), "cache-control: no-store\r\n")
            };
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{fields}");
            if !peer.try_send(format!("{head}content-length: {length}\r\n\r\n{body}")) {
                return;
            }
        }
    });
    let server = cached(&origin.address().to_string());
    let page =
        |profile: &str| browser.shown(profile, &format!("http://{}/", server.address("web")), &[]);
    // `no-store` and `reload` ask the origin for news (Cache-Control: no-cache); `no-cache` takes
    // what is no older than this second (max-age=0), so its number depends on when it comes.
    let shown = page("one");
    let ways = ["default", "default", "no-store", "no-cache", "reload", "force-cache"];
    let numbers: Vec<u32> = shown
        .trim_end_matches('|')
        .split('|')
        .zip(ways)
        .map(|(line, way)| {
            let number = line.strip_prefix(&format!("{way} 200 answer "));
            number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{shown}"))
        })
        .collect();
    let [first, second, no_store, no_cache, reload, forced] = numbers[..] else {
        panic!("{shown}")
    };
    assert_eq!((first, second, no_store, forced), (0, 0, 1, reload), "{shown}");
    assert!((1..=2).contains(&no_cache) && reload == no_cache + 1, "{shown}");
    // Another visitor gets what the first one left here.
    let found = format!("default 200 answer {reload}|");
    assert!(page("two").starts_with(&found.repeat(2)));
}
