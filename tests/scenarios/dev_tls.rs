//! `--dev-tls`: a certificate of a local authority, which clients can verify.

use scenarios::{Exit, Launch, Process, Tidegate, tidegate_binary};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::setup::body;

const CONFIG: &str = r#"
listeners: { web: { bind: "127.0.0.1:0", tls: {} } }
routes: [{ match: { path: "/" }, handler: { respond: { body: "hello" } } }]
"#;

fn launch(state: &Path) -> Launch {
    Launch::new(CONFIG).environment("STATE_DIRECTORY", state.to_str().expect("a path"))
}

/// Fetches `/` with curl, which verifies the certificate.
fn curl(address: SocketAddr, name: &str, authority: &Path) -> Exit {
    let resolve = format!("{name}:{}:127.0.0.1", address.port());
    let mut command = Command::new("curl");
    command.args(["-sS", "-i", "--max-time", "20", "--resolve", &resolve, "--cacert"]);
    Process::run(command.arg(authority).arg(format!("https://{name}:{}/", address.port())))
}

#[test]
fn a_configuration_is_served_with_a_certificate_that_is_reused() {
    let state = tempfile::tempdir().expect("a directory");
    let check = launch(state.path()).run(&["check", "tidegate.yaml"]);
    assert!(check.code == Some(2) && check.stderr.contains("--dev-tls"), "{check:?}");
    let authority = state.path().join("dev-tls/ca.pem");
    let start = || -> Tidegate {
        let server = launch(state.path()).argument("--dev-tls=shop.test,*.shop.test").start();
        let told = server.wait_for_log("curl --cacert");
        assert!(told.contains(authority.to_str().expect("a path")), "{told}");
        server
    };
    let server = start();
    for name in ["localhost", "shop.test", "a.shop.test"] {
        let exit = curl(server.address("web"), name, &authority);
        assert_eq!(body(&exit), "hello", "{name}: {exit:?}");
    }
    let other = curl(server.address("web"), "other.test", &authority);
    assert_eq!(other.code, Some(60), "the name is not certified: {other:?}");
    let files = || ["ca.pem", "site.pem"].map(|name| std::fs::read(authority.with_file_name(name)));
    let before = files().map(|content| content.expect("a file"));
    // A reload keeps the certificate, and so does the next start.
    server.rewrite_config(&CONFIG.replace("hello", "again"));
    scenarios::eventually("the configuration is reloaded", || {
        body(&curl(server.address("web"), "localhost", &authority)) == "again"
    });
    drop(server);
    let server = start();
    assert_eq!(body(&curl(server.address("web"), "localhost", &authority)), "hello");
    assert!(files().map(|content| content.expect("a file")) == before);
}

#[test]
fn a_directory_is_served_with_it() {
    let state = tempfile::tempdir().expect("a directory");
    std::fs::write(state.path().join("index.html"), "page").expect("a file");
    let mut command = Command::new(tidegate_binary());
    command.args(["files", ".", "--bind", "127.0.0.1:0", "--dev-tls"]);
    command.env("STATE_DIRECTORY", state.path()).current_dir(state.path());
    let server = Process::start(&mut command);
    let address = server.wait_for_line(|line| {
        let address = line.split_once("listening name=files address=")?.1;
        address.parse().ok()
    });
    let authority = state.path().join("dev-tls/ca.pem");
    let exit = curl(address.expect("it listens"), "localhost", &authority);
    assert_eq!(body(&exit), "page", "{exit:?}");
}

/// Listeners without certificates, and with a context of unusable ones: the option replaces them.
const PROGRAM: &str = r#"
local http, tls = require "silly.net.http", require "silly.net.tls"
local function handler(stream)
    stream:respond(200)
    stream:closewrite(stream.scheme)
end
local secure = assert(http.listen { addr = "127.0.0.1:0", tls = true, handler = handler })
local context = assert(require "silly.tls.ctx".server({ { cert = "", key = "" } }))
local raw = assert(tls.listen {
    addr = "127.0.0.1:0",
    ctx = context,
    accept = function(conn)
        conn:read("\r\n\r\n")
        conn:write("HTTP/1.0 200 OK\r\n\r\nraw")
        conn:close()
    end,
})
assert(raw:reload { certs = {} })
require "silly.logger".info("listening " .. secure.addr .. " " .. raw.addr)
"#;

#[test]
fn a_lua_program_presents_it_instead_of_its_certificates() {
    let state = tempfile::tempdir().expect("a directory");
    std::fs::write(state.path().join("shop.lua"), PROGRAM).expect("a file");
    let run = |options: &[&str]| {
        let mut command = Command::new(tidegate_binary());
        command.arg("run").args(options).arg("shop.lua");
        command.env("STATE_DIRECTORY", state.path()).current_dir(state.path());
        command
    };
    let program = Process::start(&mut run(&["--dev-tls=shop.test", "--workers", "2"]));
    let addresses = program.wait_for_line(|line| {
        let mut addresses = line.split_once("listening ")?.1.split_whitespace();
        Some((addresses.next()?.parse().ok()?, addresses.next()?.parse().ok()?))
    });
    let (secure, raw) = addresses.unwrap_or_else(|| panic!("{:?}", program.log()));
    let authority = state.path().join("dev-tls/ca.pem");
    for (address, name, expected) in
        [(secure, "localhost", "https"), (secure, "shop.test", "https"), (raw, "shop.test", "raw")]
    {
        let exit = curl(address, name, &authority);
        assert_eq!(body(&exit), expected, "{name}: {exit:?}");
    }
    let without = Process::start(&mut run(&[]));
    let why = "certs: table expected; or start the program with tidegate run --dev-tls";
    assert!(without.wait_for_line(|line| line.contains(why).then_some(())).is_some());
    for (options, code, why) in [
        (&["--dev-tls=a b"], 1, "\"a b\" is neither a DNS name nor an IP address"),
        (&["--ssl-certfile=a.pem"], 2, "an option of https is for Python applications"),
    ] {
        let exit = Process::run(&mut run(options));
        assert!(exit.code == Some(code) && exit.stderr.contains(why), "{exit:?}");
    }
}

#[test]
fn what_cannot_be_certified_is_an_error() {
    let state = tempfile::tempdir().expect("a directory");
    for (options, code, why) in [
        (&["--dev-tls=a b"][..], 1, "\"a b\" is neither a DNS name nor an IP address"),
        (&["--dev-tls", "--cert=a.pem", "--key=a.key"], 2, "cannot be used with"),
    ] {
        let mut command = Command::new(tidegate_binary());
        command.args(["files", "."]).args(options);
        let exit = Process::run(command.env("STATE_DIRECTORY", state.path()));
        assert!(exit.code == Some(code) && exit.stderr.contains(why), "{exit:?}");
    }
    let plain = Launch::new("listeners: { web: { bind: \"127.0.0.1:0\" } }\nroutes: []\n")
        .environment("STATE_DIRECTORY", state.path().to_str().expect("a path"));
    let exit = plain.run(&["up", "tidegate.yaml", "--dev-tls"]);
    assert!(
        exit.code == Some(2) && exit.stderr.contains("write tls: {} on a listener"),
        "{exit:?}"
    );
}
