//! HTTP and WebSocket of Lua programs, with clients and servers that are not ours.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use scenarios::{Authority, Exit, Process, command_exists, tidegate_binary};
use tempfile::TempDir;

/// Starts a program that logs `listening ADDRESS`.
fn serve(directory: &TempDir, text: &str) -> (Process, SocketAddr) {
    let file = directory.path().join("server.lua");
    std::fs::write(&file, text).expect("a file");
    let process = Process::start(Command::new(tidegate_binary()).arg("run").arg(file));
    let told = process.wait_for_line(|line| {
        line.split_once("listening ")?.1.split_whitespace().next()?.parse().ok()
    });
    let address = told.unwrap_or_else(|| panic!("it ended: {:?}", process.log()));
    (process, address)
}

/// Runs a program whose `main(port)` must not fail.
fn talk(directory: &TempDir, port: &str, main: &str) {
    let text = format!(
        "local silly, http = require 'silly', require 'silly.net.http'
local websocket = require 'silly.net.websocket'
local function main(port) {main} end
local ok, why = pcall(main, {port})
if not ok then require 'silly.logger'.error(why) end
silly.exit(ok and 0 or 1)"
    );
    let file = directory.path().join("client.lua");
    std::fs::write(&file, text).expect("a file");
    let exit = Process::run(Command::new(tidegate_binary()).arg("run").arg(file));
    assert_eq!(exit.code, Some(0), "{exit:?}");
}

/// Whether a client is installed; says so aloud if not.
fn has(name: &str) -> bool {
    let has = command_exists(name);
    if !has {
        let _ = writeln!(std::io::stderr(), "skipped: {name} is not installed");
    }
    has
}

fn curl(arguments: &[&str]) -> Exit {
    let exit = Process::run(Command::new("curl").args(["-sS", "--max-time", "20"]).args(arguments));
    assert_eq!(exit.code, Some(0), "{arguments:?}: {exit:?}");
    exit
}

const SERVER: &str = r#"
local http, websocket = require "silly.net.http", require "silly.net.websocket"
local logger, time = require "silly.logger", require "silly.time"
local paths = {}
paths["/echo"] = function(stream)
    local body = stream:readall()
    stream:respond(200, { ["x-method"] = stream.method })
    stream:closewrite(body)
end
paths["/pipe"] = function(stream)
    stream:respond(200)
    for piece in function() return stream:read() end do stream:write(piece) end
end
paths["/error"] = function() error "on purpose" end
paths["/slow"] = function(stream)
    logger.info("slow begins")
    time.sleep(300)
    stream:respond(200)
    stream:closewrite("slow and whole")
end
paths["/chat"] = function(stream)
    local socket = websocket.upgrade(stream)
    if not socket then return end
    socket:write("welcome", "text")
    while true do
        local data, kind = socket:read()
        if not data or kind == "close" then return end
        if kind == "text" or kind == "binary" then socket:write(data, kind) end
    end
end
local listener = assert(http.listen { addr = "127.0.0.1:0", max_body = 4 << 20,
    handler = function(stream)
        local handle = paths[stream.path]
        if handle then return handle(stream) end
        stream:respond(404)
    end })
logger.info("listening " .. listener.addr)
"#;

#[test]
fn curl_uploads_downloads_and_is_refused() {
    if !has("curl") {
        return;
    }
    let directory = TempDir::new().expect("a directory");
    let (server, address) = serve(&directory, SERVER);
    let url = |path: &str| format!("http://{address}{path}");
    let file = directory.path().join("large");
    let large: String = (0..300_000).map(|n| format!("{n}\n")).collect();
    std::fs::write(&file, &large).expect("a file");
    let from = format!("@{}", file.display());

    // Longer than a mebibyte: curl asks with `Expect: 100-continue`.
    let echoed = curl(&["--data-binary", &from, &url("/echo")]);
    assert!(echoed.stdout == large);
    let chunked = ["-H", "transfer-encoding: chunked", "--data-binary", &from, &url("/pipe")];
    assert!(curl(&chunked).stdout == large);
    let patch = curl(&["-i", "-X", "PATCH", "-d", "a", &url("/echo")]).stdout;
    assert!(patch.contains("x-method: PATCH") && patch.ends_with("\r\n\r\na"), "{patch}");
    let status = |arguments: &[&str]| {
        let code = ["-o", "/dev/null", "-w", "%{http_code}"];
        curl(&[&code[..], arguments].concat()).stdout
    };
    assert_eq!(status(&["-I", &url("/echo")]), "200");
    assert_eq!(status(&[&url("/nowhere")]), "404");
    assert_eq!(status(&[&url("/error")]), "500");
    server.wait_for_line(|line| line.contains("on purpose").then_some(())).expect("it is logged");
    let huge = directory.path().join("huge");
    std::fs::write(&huge, vec![b'x'; (4 << 20) + 1]).expect("a file");
    assert_eq!(status(&["--data-binary", &format!("@{}", huge.display()), &url("/echo")]), "413");
    assert_eq!(status(&[&url("/echo")]), "200");
}

#[test]
fn requests_of_a_program_are_logged_where_configured() {
    let directory = TempDir::new().expect("a directory");
    let (file, log) = (directory.path().join("server.lua"), directory.path().join("access.log"));
    let program = format!(
        "{SERVER}\nhttp.get('http://' .. listener.addr .. '/nowhere?key=secret')
        logger.info('asked') listener:close() require 'silly'.exit(0)"
    );
    std::fs::write(&file, program).expect("a file");
    let mut command = Command::new(tidegate_binary());
    let exit = Process::run(command.arg("run").arg("--access-log").arg(&log).arg(file));
    assert_eq!(exit.code, Some(0), "{exit:?}");
    let text = std::fs::read_to_string(log).expect("the log");
    let line: serde_json::Value = serde_json::from_str(text.trim()).expect("one line of JSON");
    assert_eq!((&line["status"], &line["path"]), (&404.into(), &"/nowhere".into()), "{line}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn a_request_in_flight_is_finished_before_the_program_ends() {
    if !has("curl") {
        return;
    }
    let directory = TempDir::new().expect("a directory");
    let (server, address) = serve(&directory, SERVER);
    let url = format!("http://{address}/slow");
    let client = Process::start(Command::new("curl").args(["-sS", "--max-time", "20", &url]));
    server.wait_for_line(|line| line.contains("slow begins").then_some(()));
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));
    let exit = client.wait();
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "slow and whole"), "{exit:?}");
}

/// Answers of HTTP/1.0: a connection a request, bodies that end with it.
const PYTHON: &str = r#"
import gzip, http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        if self.path == "/gzip":
            body = gzip.compress(b"plain" * 1000)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
        elif self.path == "/cut":
            self.send_header("Content-Length", "1000")
            body = b"not all"
        else:
            body = b"".join(b"%d\n" % number for number in range(20000))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("X-Host", self.headers["Host"])
        self.end_headers()
        self.wfile.write(b"%d" % len(body))

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("port", server.server_address[1], file=sys.stderr, flush=True)
server.serve_forever()
"#;

fn python(command: &mut Command) -> (Process, String) {
    let server = Process::start(command);
    let port = server.wait_for_line(|line| line.strip_prefix("port ").map(str::to_owned));
    let port = port.unwrap_or_else(|| panic!("python3 ended: {:?}", server.log()));
    (server, port)
}

#[test]
fn a_program_queries_a_server_in_python() {
    if !has("python3") {
        return;
    }
    let directory = TempDir::new().expect("a directory");
    let (_server, port) = python(Command::new("python3").args(["-c", PYTHON]));
    let main = r#"
        local url = "http://localhost:" .. port
        for _ = 1, 3 do
            local answer = assert(http.get(url .. "/text"))
            assert(answer.status == 200 and answer.body:sub(-6) == "19999\n")
        end
        assert(#assert(http.get(url .. "/gzip")).body == 5000)
        local answer = assert(http.post(url .. "/", { ["x-one"] = "1" }, ("x"):rep(1 << 20)))
        assert(answer.status == 201 and answer.body == tostring(1 << 20))
        assert(answer.header["x-host"] == "localhost:" .. port)
        local none, why = http.get(url .. "/cut")
        assert(none == nil and why == require "silly.errno".EOF, why)
    "#;
    talk(&directory, &port, main);
}

/// The script of the interop tests.
fn script() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop");
    path.display().to_string()
}

/// A client over the words of that script: whole messages, pieces, a ping, wrong bytes.
const CHAT: &str = r#"
import asyncio, base64, os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from websocket import *

async def talk(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 21)
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write((
        "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
    status, fields = await read_head(reader)
    assert status.startswith("HTTP/1.1 101 "), status
    assert fields["sec-websocket-accept"] == accept(key), fields
    async def expect(opcode, payload):
        got = await read_frame(reader, False)
        assert got == (True, opcode, payload), f"{got[:2]} {got[2][:40]!r}"
    await expect(TEXT, b"welcome")
    for size in [0, 1, 125, 126, 65535, 65536, 1 << 20]:
        payload = os.urandom(size)
        writer.write(frame(BINARY, payload, True))
        await expect(BINARY, payload)
    writer.write(frame(TEXT, b"in ", True, False))
    writer.write(frame(PING, b"between", True))
    writer.write(frame(CONTINUATION, b"pieces", True))
    await expect(PONG, b"between")
    await expect(TEXT, b"in pieces")
    if sys.argv[3] == "rude":
        writer.write(frame(TEXT, b"\xff\xfe", True))
        final, opcode, payload = await read_frame(reader, False)
        assert opcode == CLOSE and payload[:2] == (1007).to_bytes(2, "big"), payload
    else:
        writer.write(frame(CLOSE, (1000).to_bytes(2, "big"), True))
        await expect(CLOSE, (1000).to_bytes(2, "big"))
    assert await reader.read() == b""
    print("all came back")

asyncio.run(asyncio.wait_for(talk(int(sys.argv[2])), PATIENCE_S))
"#;

#[test]
fn a_websocket_in_python_talks_to_a_program() {
    if !has("python3") {
        return;
    }
    let directory = TempDir::new().expect("a directory");
    let (_server, address) = serve(&directory, SERVER);
    let port = address.port().to_string();
    for manner in ["polite", "rude"] {
        let exit =
            Process::run(Command::new("python3").args(["-c", CHAT, &script(), &port, manner]));
        assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "all came back\n"), "{exit:?}");
    }
}

#[test]
fn a_program_talks_to_a_websocket_in_python() {
    if !has("python3") {
        return;
    }
    let directory = TempDir::new().expect("a directory");
    let (_server, port) =
        python(Command::new("python3").arg(format!("{}/websocket.py", script())).arg("serve"));
    let main = r#"
        local socket = assert(websocket.connect("ws://127.0.0.1:" .. port .. "/"))
        local data, kind, code = socket:read()
        assert(data == "welcome" and kind == "text")
        for _, size in ipairs { 0, 125, 126, 65536, 1000000 } do
            local message = ("\xfe"):rep(size)
            assert(socket:write(message))
            data, kind = socket:read()
            assert(data == message and kind == "binary", size)
        end
        socket:write("there?", "ping")
        data, kind = socket:read()
        assert(data == "there?" and kind == "pong")
        assert(socket:close(1000, "enough"))
    "#;
    talk(&directory, &port, main);
}

#[test]
fn a_program_serves_https() {
    let (directory, authority) = (TempDir::new().expect("a directory"), Authority::new());
    let (a, b) = (authority.issue(&["a.test"]), authority.issue(&["b.test"]));
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).expect("a file");
    let text = format!(
        r#"
local http, logger = require "silly.net.http", require "silly.logger"
local function handler(stream) stream:respond(200) stream:closewrite(stream.scheme) end
local a, b = {{ cert = [[{}]], key = [[{}]] }}, {{ cert = [[{}]], key = [[{}]] }}
local listener, why = http.listen {{ addr = "127.0.0.1:0", handler = handler, tls = true,
    certs = {{ a, {{ cert = b.cert, key = a.key }} }} }}
assert(not listener and why == "certs[2]: the private key does not belong to the certificate", why)
assert(not pcall(http.listen, {{ addr = "127.0.0.1:0", handler = handler, tls = true }}))
local conf = {{ addr = "127.0.0.1:0", handler = handler, tls = true, certs = {{ a, b }} }}
listener = assert(http.listen(conf))
logger.info("listening " .. listener.addr)
"#,
        a.chain, a.key, b.chain, b.key
    );
    let (_process, address) = serve(&directory, &text);
    for name in ["a.test", "b.test"] {
        let resolve = format!("{name}:{}:127.0.0.1", address.port());
        let url = format!("https://{name}:{}/", address.port());
        let ca = ca.to_str().expect("a path");
        assert_eq!(curl(&["--cacert", ca, "--resolve", &resolve, &url]).stdout, "https");
    }
}
