//! TLS of Lua programs, with OpenSSL and Python on the other side.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use scenarios::{Authority, Issued, Process, command_exists, tidegate_binary};
use tempfile::TempDir;

struct Files {
    directory: TempDir,
    authority: Authority,
    server: Issued,
}

impl Files {
    fn new() -> Files {
        let (directory, authority) = (TempDir::new().expect("a directory"), Authority::new());
        let server = authority.issue(&["a.test"]);
        let files = Files { directory, authority, server };
        files.write("ca.pem", &files.authority.pem());
        files.write("server.pem", &files.server.chain);
        files.write("server.key", &files.server.key);
        files
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("a path").to_owned()
    }

    /// Runs a program that has `content(name)`, a file of the directory.
    fn run(&self, name: &str, text: &str) -> Command {
        let head = format!(
            "local tls, errno = require 'silly.net.tls', require 'silly.errno'\n\
             local logger, silly = require 'silly.logger', require 'silly'\n\
             local function content(name)\n\
             return assert(io.open('{}/' .. name)):read('a')\nend\n",
            self.directory.path().display()
        );
        self.write(name, &(head + text));
        let mut command = Command::new(tidegate_binary());
        command.arg("run").arg(self.path(name));
        command
    }
}

/// Whether a program is installed; says so aloud if not.
fn has(name: &str) -> bool {
    let has = command_exists(name);
    if !has {
        let _ = writeln!(std::io::stderr(), "skipped: {name} is not installed");
    }
    has
}

#[test]
fn openssl_talks_to_a_program() {
    if !has("openssl") {
        return;
    }
    let files = Files::new();
    let text = r#"
local listener = assert(tls.listen {
    addr = "127.0.0.1:0",
    certs = { { cert = content "server.pem", key = content "server.key" } },
    alpnprotos = { "echo" },
    accept = function(conn)
        for line in function() return conn:read("\n") end do
            conn:write(tostring(conn:alpnproto()) .. " " .. line:upper())
        end
        conn:close()
    end,
})
logger.info("listening " .. listener.addr)
"#;
    let process = Process::start(&mut files.run("server.lua", text));
    let address = process.wait_for_line(|line| {
        Some(line.split_once("listening ")?.1.split_whitespace().next()?.to_owned())
    });
    let address = address.unwrap_or_else(|| panic!("{:?}", process.log()));
    for version in ["-tls1_2", "-tls1_3"] {
        let mut client = Command::new("openssl")
            .args(["s_client", "-quiet", "-verify_return_error", "-servername", "a.test"])
            .args(["-verify_hostname", "a.test", "-alpn", "echo", version])
            .args(["-connect", &address, "-CAfile", &files.path("ca.pem")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl");
        let mut input = client.stdin.take().expect("a pipe");
        let mut lines = BufReader::new(client.stdout.take().expect("a pipe")).lines();
        input.write_all(b"hello\n").expect("it reads");
        assert_eq!(lines.next().expect("a line").expect("text"), "echo HELLO", "{version}");
        drop(input);
        client.kill().expect("it runs");
        client.wait().expect("it ends");
    }
    let old = Process::run(
        Command::new("openssl")
            .args(["s_client", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0", "-connect", &address])
            .stdin(Stdio::null()),
    );
    assert_ne!(old.code, Some(0), "{old:?}");
}

/// A server in Python: one connection for each line that tells what to do with it.
const PEER: &str = r#"
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
context.set_alpn_protocols(["echo"])
listener = socket.create_server(("127.0.0.1", 0))
print("port", listener.getsockname()[1], file=sys.stderr, flush=True)
while True:
    raw, _ = listener.accept()
    try:
        conn = context.wrap_socket(raw, server_side=True)
        for line in conn.makefile("rb"):
            if line == b"half\n":
                conn.unwrap()
                break
            if line == b"cut\n":
                conn.sendall(b"part")
                raw_fd = conn.detach()
                socket.socket(fileno=raw_fd).close()
                break
            conn.sendall(line.upper())
    except (ssl.SSLError, OSError) as error:
        print("failed", error, file=sys.stderr, flush=True)
"#;

#[test]
fn a_program_talks_to_openssl_and_python() {
    let files = Files::new();
    let client = |port: u16, text: &str| {
        let head = format!(
            "local function connect(options)\n\
             options.timeout = 20000\n\
             return tls.connect('127.0.0.1:{port}', options)\nend\n\
             local trusted = {{ ca = content 'ca.pem', hostname = 'a.test', \
             alpnprotos = {{ 'echo' }} }}\n"
        );
        let exit = Process::run(&mut files.run("client.lua", &(head + text + "\nsilly.exit(0)")));
        assert_eq!(exit.code, Some(0), "{exit:?}");
    };
    if has("python3") {
        files.write("peer.py", PEER);
        let mut command = Command::new("python3");
        command
            .arg(files.path("peer.py"))
            .args([files.path("server.pem"), files.path("server.key")]);
        let peer = Process::start(&mut command);
        let port = peer.wait_for_line(|line| line.strip_prefix("port ")?.trim().parse().ok());
        let port: u16 = port.unwrap_or_else(|| panic!("{:?}", peer.log()));
        client(
            port,
            r#"
local function main()
    local conn = assert(connect(trusted))
    assert(conn:alpnproto() == "echo")
    conn:write("hello\n")
    assert(conn:read("\n", 20000) == "HELLO\n")
    conn:write("half\n")
    local data, why = conn:read(1, 20000)
    assert(data == nil and why == errno.EOF, why)
    conn:close()
    -- The stream is cut without close_notify: what arrived is there, then the error.
    conn = assert(connect(trusted))
    conn:write("cut\n")
    assert(conn:read(4, 20000) == "part")
    data, why = conn:read(1, 20000)
    assert(data == nil and (why == errno.TLS or why == errno.CONNRESET), why)
    local none, err, detail = connect { ca = content "ca.pem", hostname = "b.test" }
    assert(none == nil and err == errno.TLS and detail:find("not valid for name"), detail)
    none, err, detail = connect { hostname = "a.test" }
    assert(none == nil and err == errno.TLS and detail:find("UnknownIssuer"), detail)
end
local ok, why = pcall(main)
if not ok then logger.error(why) silly.exit(1) end
"#,
        );
    }
    if has("openssl") {
        let mut command = Command::new("openssl");
        command
            .args(["s_server", "-rev", "-accept", "127.0.0.1:0"])
            .args(["-cert", &files.path("server.pem"), "-cert_chain", &files.path("server.pem")])
            .args(["-key", &files.path("server.key"), "-alpn", "echo"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut server = command.spawn().expect("openssl");
        let lines = BufReader::new(server.stdout.take().expect("a pipe")).lines();
        let port = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("ACCEPT 127.0.0.1:")?.trim().parse().ok())
            .expect("it listens");
        client(
            port,
            r#"
local function main()
    local conn = assert(connect(trusted))
    conn:write("abc\n")
    assert(conn:read("\n", 20000) == "cba\n")
end
local ok, why = pcall(main)
if not ok then logger.error(why) silly.exit(1) end
"#,
        );
        server.kill().expect("it runs");
        server.wait().expect("it ends");
    }
}
