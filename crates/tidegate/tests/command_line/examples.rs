//! Every configuration of `examples/` is right, starts, and answers as its comments say.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tempfile::TempDir;

use crate::process::{Running, TIMEOUT, get, status, tidegate, until_limited};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The SHA-256 of `my-key`.
const KEY_SHA256: &str = "5e78863ed1ffb9fc66b1d61634b126bf8eb20267e7996297eeeb9b19c8c0f732";

/// Starts an example with every address of its own on a free port, and says where it is.
pub(crate) fn start(name: &str, directory: &Path) -> (Running, SocketAddr) {
    let text = std::fs::read_to_string(examples().join(name)).unwrap();
    start_text(name, &text, directory)
}

fn start_text(name: &str, text: &str, directory: &Path) -> (Running, SocketAddr) {
    start_with(name, text, directory, &[])
}

fn start_with(name: &str, text: &str, directory: &Path, options: &[&str]) -> (Running, SocketAddr) {
    let text = text.replace("redirect_from: \"127.0.0.1:8080\"", "redirect_from: \"127.0.0.1:0\"");
    let moved: Vec<_> = text
        .lines()
        .map(|line| match line.split_once("bind: \"127.0.0.1:") {
            Some((before, after)) => {
                let (_, rest) = after.split_once('"').expect("an address ends");
                format!("{before}bind: \"127.0.0.1:0\"{rest}")
            }
            None => line.to_owned(),
        })
        .collect();
    for part in ["site", "handlers", "grpc"] {
        copy(&examples().join(part), &directory.join(part));
    }
    std::fs::write(directory.join(name), moved.join("\n")).unwrap();
    let mut command = tidegate(directory, &["up", name, "--workers", "1"]);
    command.args(options).env("STATE_DIRECTORY", directory.join("state"));
    command.env("CATALOG_KEY_SHA256", KEY_SHA256);
    let mut server = Running::start(command);
    let address = server.address("web");
    (server, address)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => {
                std::fs::copy(entry.path(), target).unwrap();
            }
        }
    }
}

#[test]
fn every_example_is_started_here() {
    let mut names: Vec<_> = std::fs::read_dir(examples())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    names.sort();
    // `cache.yaml` is in `caching`.
    let expected = [
        "cache.yaml",
        "gateway.yaml",
        "grpc.yaml",
        "http2-upstreams.yaml",
        "https.yaml",
        "lua-handlers.yaml",
        "minimal.yaml",
        "mock.yaml",
        "mutual-tls.yaml",
        "static-site.yaml",
        "streams.yaml",
        "ticket-keys.yaml",
    ];
    assert_eq!(names, expected);
}

#[test]
fn lua_handlers() {
    let directory = TempDir::new().unwrap();
    let (mut server, address) = start("lua-handlers.yaml", directory.path());
    let answer = get(address, "/hello?name=you", "");
    assert!(answer.contains("{\"hello\":\"you\"}"), "{answer}");
    assert_eq!(status(&get(address, "/notes/1", "")), "404");
    let mut note = TcpStream::connect(address).unwrap();
    let text = "{\"text\":\"buy milk\"}";
    let head = "POST /notes HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 19\r\n\r\n";
    note.write_all(format!("{head}{text}").as_bytes()).unwrap();
    let mut answer = String::new();
    note.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 ") && answer.contains("/notes/1"), "{answer}");
    let answer = get(address, "/notes/1", "");
    assert!(answer.contains("buy milk") && answer.contains("server-timing: lua;dur="), "{answer}");
    let mut redis = TcpStream::connect(server.address("program-1")).unwrap();
    redis.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
    let mut pong = [0; 7];
    redis.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"+PONG\r\n");
}

#[test]
fn api_gateway() {
    let directory = TempDir::new().unwrap();
    copy(&examples().join("api-gateway"), directory.path());
    let text = std::fs::read_to_string(directory.path().join("tidegate.yaml")).unwrap();
    let readme = std::fs::read_to_string(directory.path().join("README.md")).unwrap();
    let token = readme.split("Bearer ").nth(1).and_then(|rest| rest.split('\'').next());
    let token = format!("Authorization: Bearer {}\r\n", token.expect("a token"));
    let key = "X-API-Key: warehouse-key\r\n";
    let (_server, address) = start_text("tidegate.yaml", &text, directory.path());

    assert_eq!(status(&get(address, "/orders/7", "")), "401");
    let begin = Instant::now();
    let order = get(address, "/orders/7", key);
    assert!(status(&order) == "200" && order.contains("\nx-request-id: "), "{order}");
    let canary = get(address, "/orders/7", &format!("{key}X-Canary: 1\r\n"));
    assert!(canary.ends_with("order 7 of version 2\n"), "{canary}");
    let internal = get(address, "/admin/", &token);
    assert!(internal.ends_with("for internal consumers\n"), "{internal}");
    assert_eq!(status(&get(address, "/admin/", key)), "403");
    assert_eq!(status(&get(address, "/orders/7?q=<script>", key)), "403");
    let page = get(address, "/orders/7", "Origin: https://shop.example.com\r\n");
    assert!(page.contains("access-control-allow-origin: https://shop.example.com"), "{page}");
    // Three requests of this consumer were counted, and one more passes each six seconds.
    let allowed = until_limited(|| get(address, "/orders/7", key));
    let most = 2 + begin.elapsed().as_secs() as usize / 6;
    assert!((2..=most).contains(&allowed), "{allowed}");
}

#[test]
fn ai_gateway() {
    let directory = TempDir::new().unwrap();
    let text = std::fs::read_to_string(examples().join("ai-gateway/tidegate.yaml")).unwrap();
    // The mocks of one server are the providers of another.
    let (mut mocks, _) = start_text("mocks.yaml", &text, directory.path());
    let [first, second] = ["first", "second"].map(|name| mocks.address(name).to_string());
    let text = text.replace("http://127.0.0.1:8081", &format!("http://{first}"));
    let text = text.replace("http://127.0.0.1:8082", &format!("http://{second}"));
    let (_server, address) = start_text("tidegate.yaml", &text, directory.path());

    let ask = |key: &str, model: &str| {
        let body = format!(r#"{{"model":"{model}","messages":[]}}"#);
        let mut stream = TcpStream::connect(address).unwrap();
        let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";
        let length = body.len();
        let fields = format!("authorization: Bearer {key}\r\ncontent-length: {length}\r\n");
        stream.write_all(format!("{head}{fields}\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.to_ascii_lowercase()
    };
    assert_eq!(status(&ask("none", "chat")), "401");
    let answer = ask("ann-key", "chat");
    assert!(status(&answer) == "200" && answer.contains("x-provider: second"), "{answer}");
    assert!(answer.contains("x-ratelimit-limit-tokens: 100000"), "{answer}");
    assert_eq!(status(&ask("ann-key", "large")), "200");
    assert_eq!(status(&ask("bob-key", "large")), "404");
    let limited = [0; 3].map(|_| status(&ask("bob-key", "chat")).to_owned());
    assert_eq!(limited, ["200", "200", "429"]);
}

#[test]
fn minimal() {
    let directory = TempDir::new().unwrap();
    let (_server, address) = start("minimal.yaml", directory.path());
    // Its application does not run here: either the failed command is printed, or another server
    // responds.
    let answer = get(address, "/", "");
    assert!(answer.starts_with("http/1.1 "), "{answer}");
    if status(&answer) == "502" {
        assert!(answer.contains("\nproxy-status:"), "{answer}");
    }
}

#[test]
fn mock() {
    let directory = TempDir::new().unwrap();
    let (_server, address) = start("mock.yaml", directory.path());
    let order = get(address, "/orders/7", "");
    assert!(status(&order) == "200" && order.contains("x-order: 7"), "{order}");
    assert!(order.ends_with(r#"{ "state": "shipped" }"#), "{order}");
    let down = get(address, "/orders/7", "x-mock: down\r\n");
    assert!(status(&down) == "503" && down.contains("retry-after: 1"), "{down}");
    let export = get(address, "/export", "");
    assert!(export.len() > 2 << 20, "{} bytes", export.len());
}

#[test]
fn http2_upstreams() {
    let directory = TempDir::new().unwrap();
    // Listeners serve HTTP/2 in the clear too.
    let (_backend, backend) = start("mock.yaml", directory.path());
    let text = std::fs::read_to_string(examples().join("http2-upstreams.yaml")).unwrap();
    let text = text.replace("127.0.0.1:9000", &backend.to_string());
    let (_server, address) = start_text("http2-upstreams.yaml", &text, directory.path());
    let order = get(address, "/orders/7", "");
    assert!(status(&order) == "200" && order.contains("x-order: 7"), "{order}");
    assert_eq!(status(&get(address, "/search/a", "")), "502");
}

#[test]
fn grpc() {
    let directory = TempDir::new().unwrap();
    let text = std::fs::read_to_string(examples().join("grpc.yaml")).unwrap();
    // Nothing listens there.
    let text = text.replace("127.0.0.1:9000", "127.0.0.1:1");
    let (_server, address) = start_text("grpc.yaml", &text, directory.path());
    let order = get(address, "/v1/orders/7", "");
    assert!(["502", "503"].contains(&status(&order)), "{order}");
    assert_eq!(status(&get(address, "/v1/none", "")), "404");
    let wrong = get(address, "/v1/orders/7?color=red", "");
    assert!(status(&wrong) == "400" && wrong.contains(r#"{"code":3,"#), "{wrong}");
    for (content_type, is_in_body) in [("application/grpc", false), ("application/grpc-web", true)]
    {
        let mut call = TcpStream::connect(address).unwrap();
        let head = format!(
            "POST /shop.v1.Orders/Get HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
             content-type: {content_type}\r\ncontent-length: 5\r\n\r\n\0\0\0\0\0"
        );
        call.write_all(head.as_bytes()).unwrap();
        // The prefix of the trailers is not UTF-8.
        let mut answer = Vec::new();
        call.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert_eq!(answer.contains("grpc-status:14"), is_in_body, "{answer}");
        assert_eq!(answer.contains("grpc-status: 14"), !is_in_body, "{answer}");
    }
}

#[test]
fn static_site() {
    let directory = TempDir::new().unwrap();
    let (_server, address) = start("static-site.yaml", directory.path());
    let page = get(address, "/", "");
    assert!(status(&page) == "200" && page.contains("<h1>A site</h1>"), "{page}");
    assert!(page.contains("cache-control: no-cache"), "{page}");
    let asset = get(address, "/assets/site.css", "");
    assert!(status(&asset) == "200" && asset.contains("immutable"), "{asset}");
    let moved = get(address, "/blog/hello", "");
    assert!(status(&moved) == "308" && moved.contains("location: /articles/hello"), "{moved}");
    let missing = get(address, "/none", "Accept: text/html\r\n");
    assert!(status(&missing) == "404" && missing.contains("no such page"), "{missing}");
}

#[test]
fn streams() {
    let database = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = std::fs::read_to_string(examples().join("streams.yaml")).unwrap();
    let text = text.replace("127.0.0.1:6432", &database.local_addr().unwrap().to_string());
    let directory = TempDir::new().unwrap();
    let (redis, dns) = (TcpListener::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
    let (redis, dns) = (redis.unwrap(), dns.unwrap());
    let text = text.replace("127.0.0.1:6379", &redis.local_addr().unwrap().to_string());
    let text = text.replace("127.0.0.1:5300", &dns.local_addr().unwrap().to_string());
    let (mut server, address) = start_with("streams.yaml", &text, directory.path(), &["--dev-tls"]);
    let mut client = TcpStream::connect(address).unwrap();
    let request = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let header = "PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\n";
    client.write_all(format!("{header}{request}").as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let named = answer.to_ascii_lowercase().contains("\r\nx-client: 192.0.2.7\r\n");
    assert!(named, "{answer}");
    let mut client = TcpStream::connect(server.address("database")).unwrap();
    client.write_all(b"query").unwrap();
    let (mut accepted, _) = database.accept().unwrap();
    let mut received = [0; 28 + 5];
    accepted.read_exact(&mut received).unwrap();
    assert!(received.starts_with(b"\r\n\r\n\0\r\nQUIT\n\x21\x11"), "{received:?}");
    assert!(received.ends_with(b"query"), "{received:?}");

    // The server of a stream with TLS receives what is inside.
    let secure = server.address("redis");
    let script = format!("printf PING | openssl s_client -quiet -connect {secure} 2> /dev/null");
    let mut client = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    let (mut accepted, _) = redis.accept().unwrap();
    let mut received = [0; 4];
    accepted.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"PING");
    drop(accepted);
    client.wait().unwrap();

    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    dns.set_read_timeout(Some(TIMEOUT)).unwrap();
    client.send_to(b"question", server.address("dns")).unwrap();
    let mut received = [0; 16];
    let (length, session) = dns.recv_from(&mut received).unwrap();
    assert_eq!(&received[..length], b"question");
    dns.send_to(b"response", session).unwrap();
    let length = client.recv(&mut received).unwrap();
    assert_eq!(&received[..length], b"response");
}

/// Fetches a path with curl, which does not verify the certificate, and gives head and body.
fn secure_get(address: SocketAddr, path: &str, directory: &Path, options: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["-sSki", "--max-time", "30"]).args(options).current_dir(directory);
    let output = command.arg(format!("https://{address}{path}")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().to_ascii_lowercase()
}

#[test]
fn https() {
    let chat = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = std::fs::read_to_string(examples().join("https.yaml")).unwrap();
    let text = text.replace("127.0.0.1:3000", &chat.local_addr().unwrap().to_string());
    let directory = TempDir::new().unwrap();
    let (mut server, address) = start_with("https.yaml", &text, directory.path(), &["--dev-tls"]);
    for (version, line) in [("--http2", "http/2 200"), ("--http1.1", "http/1.1 200 ok")] {
        let answer = secure_get(address, "/", directory.path(), &[version]);
        assert!(answer.starts_with(line) && answer.ends_with("hello\n"), "{answer}");
        assert!(answer.contains("strict-transport-security: max-age=31536000\r\n"), "{answer}");
        assert!(answer.contains("x-tls: tlsv1.3\r\n"), "{answer}");
    }
    let moved = get(server.address("web-redirect"), "/a", "");
    assert!(status(&moved) == "308" && moved.contains("location: https://"), "{moved}");
    // Its server does not run.
    let failed = secure_get(address, "/payments/1", directory.path(), &[]);
    assert!(failed.starts_with("http/2 502"), "{failed}");
    // A WebSocket: the server closes after its first message.
    let serving = std::thread::spawn(move || {
        let (mut socket, _) = chat.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        assert!(head.contains("upgrade: websocket"), "{head}");
        socket
            .write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                  upgrade: websocket\r\n\r\n\x81\x05hello",
            )
            .unwrap();
    });
    let upgrade = ["--http1.1", "-H", "connection: upgrade", "-H", "upgrade: websocket"];
    let key =
        ["-H", "sec-websocket-version: 13", "-H", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="];
    let mut command = Command::new("curl");
    command.args(["-sSki", "--max-time", "30", "-o", "chat.txt"]).args(upgrade).args(key);
    // How curl sees the end of what is not HTTP differs from version to version.
    let _ = command.arg(format!("https://{address}/chat")).current_dir(directory.path()).output();
    serving.join().unwrap();
    let chat = std::fs::read(directory.path().join("chat.txt")).unwrap();
    assert!(chat.starts_with(b"HTTP/1.1 101 ") && chat.ends_with(b"\x81\x05hello"), "{chat:?}");
}

#[test]
fn mutual_tls() {
    let text = std::fs::read_to_string(examples().join("mutual-tls.yaml")).unwrap();
    let directory = TempDir::new().unwrap();
    // The commands of its first comment.
    let commands = text.lines().take_while(|line| line.starts_with('#'));
    let commands = commands.filter_map(|line| line.strip_prefix("#   "));
    let script: Vec<_> = commands.take_while(|line| !line.starts_with("tidegate")).collect();
    let script = script.join("\n");
    let made = Command::new("sh").args(["-ec", &script]).current_dir(directory.path()).output();
    assert!(made.unwrap().status.success());
    let (_server, address) = start_with("mutual-tls.yaml", &text, directory.path(), &["--dev-tls"]);
    let anonymous = secure_get(address, "/partners/", directory.path(), &[]);
    assert!(anonymous.starts_with("http/2 403"), "{anonymous}");
    let options = ["--cert", "partner.pem", "--key", "partner.key"];
    let partner = secure_get(address, "/partners/", directory.path(), &options);
    assert!(partner.starts_with("http/2 200") && partner.ends_with("welcome\n"), "{partner}");
    assert!(partner.contains("x-partner: one.partners.example.com\r\n"), "{partner}");
    // Its server does not run.
    let failed = secure_get(address, "/", directory.path(), &options);
    assert!(failed.starts_with("http/2 502"), "{failed}");
}

/// Sends a request with OpenSSL and returns what that prints.
fn openssl(address: SocketAddr, directory: &Path, options: &str) -> String {
    let script = format!(
        "printf 'GET / HTTP/1.1\\r\\nhost: a\\r\\nconnection: close\\r\\n\\r\\n' | \
         timeout 30 openssl s_client -connect {address} -ign_eof {options} 2>&1"
    );
    let output = Command::new("sh").args(["-c", &script]).current_dir(directory).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn ticket_keys() {
    let text = std::fs::read_to_string(examples().join("ticket-keys.yaml")).unwrap();
    let machine = |key: u8| {
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("tickets.key"), [key; 80]).unwrap();
        let name = "ticket-keys.yaml";
        let (server, address) = start_with(name, &text, directory.path(), &["--dev-tls"]);
        (server, address, directory)
    };
    let (one, other, stranger) = (machine(7), machine(7), machine(8));
    let client = TempDir::new().unwrap();
    let first = openssl(one.1, client.path(), "-sess_out session.pem");
    assert!(first.contains("New, TLSv1.3") && first.contains("\nhello\n"), "{first}");
    let second = openssl(other.1, client.path(), "-sess_in session.pem");
    assert!(second.contains("Reused, TLSv1.3") && second.contains("\nhello\n"), "{second}");
    let third = openssl(stranger.1, client.path(), "-sess_in session.pem");
    assert!(third.contains("New, TLSv1.3") && third.contains("\nhello\n"), "{third}");
}

#[test]
fn gateway() {
    // One mock stands in for all of its servers.
    let mock = r#"
listeners: { web: { bind: "127.0.0.1:0" } }
routes:
  - match: { path: "/{*rest}" }
    handler: { respond: { body: mock, headers: { x-path: "{path}" } } }
"#;
    let directory = TempDir::new().unwrap();
    let (_mock, server) = start_text("servers.yaml", mock, directory.path());
    let text = std::fs::read_to_string(examples().join("gateway.yaml")).unwrap();
    let port = format!("127.0.0.1:{}", server.port());
    let ports = ["9001", "9002", "9003", "9011", "9012"].map(|port| format!("127.0.0.1:{port}"));
    // A server stands once in an upstream: the others keep an address without a server.
    let text = text.replace(&ports[0], &port).replace(&ports[3], &port);
    let text = text.replace(&format!("{port}\", \"{}\"", ports[4]), &format!("{port}\""));
    let (_server, address) = start_text("gateway.yaml", &text, directory.path());

    assert_eq!(status(&get(address, "/api/catalog/1", "")), "401");
    let known = get(address, "/api/catalog/1", "X-API-Key: my-key\r\n");
    assert!(status(&known) == "200" && known.contains("x-path: /catalog/1"), "{known}");
    let preview = get(address, "/", "Cookie: preview=yes\r\n");
    assert!(preview.ends_with("the next version\n"), "{preview}");
    assert!(preview.contains("cache-control: no-store"), "{preview}");
    let shop = get(address, "/", "");
    assert!(status(&shop) == "200" && shop.contains("\nratelimit"), "{shop}");
    assert!(shop.contains("\nx-request-id: "), "{shop}");
}
