//! Paths: thousands of nasty spellings through a gateway that guards `/private` next to an open
//! route, and what other programs read in the paths that the open route forwards. None may read a
//! guarded path.

use crate::tools::{GO_FLAGS, command, has, nginx, python_with};
use scenarios::{Connection, HttpResponse, Launch, Process, Tidegate, Upstream};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// How many targets are sent.
const TARGETS: usize = 2000;

/// What paths are made of: pieces that programs read differently.
const PIECES: [&str; 52] = [
    "/private",
    "/private",
    "/private",
    "/private/",
    "private",
    "/%70rivate",
    "/privat%65",
    "/",
    "//",
    "///",
    "/.",
    "/..",
    "/./",
    "/../",
    "/../",
    "//../",
    "/.//../",
    "%2e",
    "%2E%2e",
    "/%2e%2e",
    "/%2e/",
    "/.%2e/",
    "/%2E./",
    "//%2e%2e/",
    ";x",
    ";/../",
    "%3b",
    "..;/",
    "...",
    ".",
    "/private.",
    "/x",
    "/x",
    "x",
    "/h",
    "//h",
    "//h/private",
    "%252e%252e",
    "%252f",
    "%25",
    "%20",
    "%e9",
    "+",
    "%2b",
    "~",
    "@h",
    ":80",
    "*",
    "|",
    "[::1]",
    "?q",
    "%u002e",
];

/// What is rejected.
const REJECTED: [&str; 12] = [
    "\\",
    "%5c",
    "%5C..",
    "%00",
    "%0a",
    "%7f",
    "%2f",
    "%2F..",
    "%c0%af",
    "%e0%80%af",
    "%",
    "%f0%80%80%af",
];

/// A guarded prefix next to an open route, for each kind of handler.
const CONFIG: &str = r#"
workers: 1
listeners:
  web: { bind: "127.0.0.1:0" }
  lua: { bind: "127.0.0.1:0" }
  files: { bind: "127.0.0.1:0" }
  nginx: { bind: "127.0.0.1:0" }
admin: { bind: "127.0.0.1:0" }
upstreams: { app: { servers: ["RECORDER"] }, nginx: { servers: ["NGINX"] } }
routes:
"#;

/// The routes of one listener.
const ROUTES: &str = r#"
  - match: { listener: LISTENER, path: "/private/{*rest}" }
    filters: [{ key_auth: { keys: [{ consumer: me, key: a-key-of-good-length }] } }]
    handler: { HANDLER }
  - match: { listener: LISTENER, path: "/{*rest}" }
    handler: { HANDLER }
"#;

fn targets() -> Vec<String> {
    // The same numbers in every run.
    let mut numbers = fastrand::Rng::with_seed(0x7469_6465_6761_7465);
    let mut targets = BTreeSet::new();
    while targets.len() < TARGETS {
        let mut target = String::new();
        for _ in 0..=numbers.usize(..6) {
            target.push_str(match numbers.usize(..25) {
                0 => REJECTED[numbers.usize(..REJECTED.len())],
                _ => PIECES[numbers.usize(..PIECES.len())],
            });
        }
        if !target.starts_with('/') {
            target.insert(0, '/');
        }
        if numbers.usize(..20) == 0 {
            target.insert_str(0, "http://h");
        }
        targets.insert(target);
    }
    targets.into_iter().collect()
}

fn is_guarded(path: &str) -> bool {
    path == "/private" || path.starts_with("/private/")
}

/// A path in brackets, which keep the space at its end.
fn bare(field: Option<&str>) -> &str {
    let path = field.and_then(|field| field.strip_prefix('[')?.strip_suffix(']'));
    path.expect("a path in brackets")
}

/// A client that connects again after a rejection.
struct Client<'s> {
    server: &'s Tidegate,
    listener: &'s str,
    connection: Option<Connection>,
}

impl<'s> Client<'s> {
    fn to(server: &'s Tidegate, listener: &'s str) -> Self {
        Client { server, listener, connection: None }
    }

    fn get(&mut self, target: &str) -> HttpResponse {
        let connect = || self.server.connect(self.listener);
        let connection = self.connection.get_or_insert_with(connect);
        connection.send(format!("GET {target} HTTP/1.1\r\nhost: h\r\n\r\n"));
        let response = connection.read_response();
        if response.header("connection") == Some("close") {
            self.connection = None;
        }
        response
    }
}

/// The gateway, with every handler behind a guarded and an open route.
fn gateway(recorder: &Upstream, nginx: &str) -> Tidegate {
    let mut config =
        CONFIG.replace("RECORDER", &recorder.address().to_string()).replace("NGINX", nginx);
    for (listener, handler) in [
        ("web", "upstream: app"),
        ("lua", "lua: x.lua"),
        ("files", "files: root"),
        ("nginx", "upstream: nginx"),
    ] {
        config.push_str(&ROUTES.replace("LISTENER", listener).replace("HANDLER", handler));
    }
    let script = "return function(request, response)
      response.headers['x-path'] = '[' .. request.path .. ']'
      response.headers['x-target'] = request.target
      response.status = 204
    end";
    let mut launch = Launch::new(&config).file("x.lua", script);
    for name in ["x", "h", "x/private", "private/x", "private/h", "private/index.html"] {
        let directory = if name == "x" || name == "h" { "/index.html" } else { "" };
        let content = if name.starts_with("private") { "guarded" } else { "open" };
        launch = launch.file(&format!("root/{name}{directory}"), content);
    }
    launch.start()
}

/// Sends every target and gives back those the open route took, each with what was forwarded.
fn forwarded(server: &Tidegate, targets: &[String]) -> Vec<(String, String)> {
    let (mut web, mut lua) = (Client::to(server, "web"), Client::to(server, "lua"));
    let mut files = Client::to(server, "files");
    let mut forwarded = Vec::new();
    for target in targets {
        let response = web.get(target);
        let of_lua = lua.get(target);
        let of_files = files.get(target);
        assert_eq!(of_lua.status, response.status, "{target}");
        assert_ne!(of_files.text(), "guarded", "{target}");
        match response.status {
            204 => {
                let sent = response.header("x-target").expect("what was forwarded").to_owned();
                assert_eq!(of_lua.header("x-target"), Some(&*sent), "{target}");
                assert!(!is_guarded(bare(of_lua.header("x-path"))), "{target}");
                assert!(matches!(of_files.status, 200 | 301 | 404), "{target} {}", of_files.status);
                forwarded.push((target.clone(), sent));
            }
            status => {
                assert!(matches!(status, 400 | 401), "{target} {status}");
                assert_eq!(of_files.status, status, "{target}");
            }
        }
    }
    forwarded
}

/// What a program reads in each of the targets.
fn read_by(
    program: &mut Command,
    targets: &[&str],
    directory: &Path,
) -> Vec<Vec<(String, String)>> {
    let list = directory.join("targets");
    fs::write(&list, targets.join("\n") + "\n").expect("a file");
    let output = program.stdin(fs::File::open(&list).expect("a file")).output();
    let output = output.unwrap_or_else(|error| panic!("{program:?}: {error}"));
    assert!(output.status.success(), "{program:?}: {}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("text");
    let read = |line: &str| -> Vec<(String, String)> {
        let seen: serde_json::Map<_, _> = serde_json::from_str(line).expect("an object");
        let text = |path: serde_json::Value| path.as_str().unwrap_or_default().to_owned();
        seen.into_iter().map(|(reader, path)| (reader, text(path))).collect()
    };
    let found: Vec<_> = lines.lines().filter(|line| line.starts_with('{')).map(read).collect();
    assert_eq!(found.len(), targets.len(), "{program:?}");
    found
}

/// The programs that read targets, of those that are installed.
fn readers(directory: &Path) -> Vec<Command> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/paths");
    let mut readers = Vec::new();
    if has("node") {
        let mut node = command("node", directory);
        node.arg(scripts.join("node.js"));
        readers.push(node);
    }
    if has("go") {
        let mut go = command("go", directory);
        go.env("GO111MODULE", "off").env("GOTOOLCHAIN", "local").arg("run").args(GO_FLAGS);
        go.arg(scripts.join("go.go"));
        readers.push(go);
    }
    if has("python3") {
        // Without them it reads with its own library only.
        let python = python_with("werkzeug, aiohttp").unwrap_or_else(|| "python3".into());
        let mut python = Command::new(python);
        python.arg(scripts.join("readers.py"));
        readers.push(python);
    }
    readers
}

#[test]
fn no_program_reads_a_guarded_path_where_the_route_was_open() {
    let directory = TempDir::new().expect("a temporary directory");
    let recorder = Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
            peer.send(format!("HTTP/1.1 204 No Content\r\nx-target: {target}\r\n\r\n"));
        }
    });
    let behind = has("nginx").then(|| nginx(&directory, NGINX, "text"));
    let address = behind.as_ref().map_or("127.0.0.1:9", |(_, address): &(Process, String)| address);
    let server = gateway(&recorder, address);
    let targets = targets();
    let forwarded = forwarded(&server, &targets);
    assert!(forwarded.len() > TARGETS / 3, "only {} were forwarded", forwarded.len());

    if behind.is_some() {
        let mut nginx = Client::to(&server, "nginx");
        for (target, sent) in &forwarded {
            let response = nginx.get(target);
            let seen = String::from_utf8_lossy(&response.body);
            assert!(response.status == 200 && &*seen != "guarded", "{target} {sent}: {response:?}");
            assert!(!is_guarded(bare(Some(&seen))), "{target} {sent}: {seen}");
        }
    }
    // The readers take a while, and the recorder does not wait for requests for so long.
    drop((server, recorder));
    let mut tempting = 0;
    for mut reader in readers(directory.path()) {
        let (before, after): (Vec<&str>, Vec<&str>) =
            forwarded.iter().map(|(target, sent)| (&**target, &**sent)).unzip();
        for (at, seen) in read_by(&mut reader, &after, directory.path()).into_iter().enumerate() {
            for (name, path) in seen {
                assert!(!is_guarded(&path), "{} {} is {path} to {name}", before[at], after[at]);
            }
        }
        // What the client wrote would have misled it: the targets are nasty enough.
        let origin_form: Vec<_> =
            before.into_iter().filter(|target| target.starts_with('/')).collect();
        let read = read_by(&mut reader, &origin_form, directory.path());
        let misled = |seen: &&Vec<(String, String)>| seen.iter().any(|(_, path)| is_guarded(path));
        let count = read.iter().filter(misled).count();
        assert!(count > 10, "{reader:?} was misled by {count} only");
        tempting += count;
    }
    println!("{} forwarded, of which {tempting} readings were wrong", forwarded.len());
}

const NGINX: &str = r"
daemon off; master_process off; pid nginx.pid; error_log stderr notice;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {
    listen unix:nginx.sock;
    keepalive_requests 100000;
    location /private/ { return 200 guarded; }
    location = /private { return 200 guarded; }
    location / { return 200 '[$uri]'; }
  }
}
";
