//! The console in Chromium: every page with real requests, both themes, three widths, accessibility
//! by axe, roles, and markup in everything that a client can send.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scenarios::{Exit, Launch, Process, Tidegate, Upstream};
use tempfile::TempDir;

use crate::tools::{Browser, command, node_packages};

/// The programs end themselves before that.
const VISIT_WITHIN: Duration = Duration::from_secs(270);

const PAGE: &str = "return function(request, response)
  local why = request.query.fail
  if why then error('failed: ' .. why) end
  response:text('lua')
end";

/// The configuration is written so that the page can change it: secrets are visible to `all`.
fn config(shop: &Upstream, volatile: &Upstream, routes: usize) -> String {
    let (shop, volatile) = (shop.address(), volatile.address());
    let many: String = (0..routes)
        .map(|n| {
            format!(
                "- {{ name: many-{n}, match: {{ path: /many/{n} }}, \
                 handler: {{ respond: {{}} }} }}\n"
            )
        })
        .collect();
    format!(
        r#"listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin:
  bind: "127.0.0.1:0"
  console: true
  config_secrets: true
  token: open-sesame
  tokens: [{{ role: read, token: only-looks }}]
upstreams:
  shop: {{ servers: ["{shop}"] }}
  volatile: {{ servers: ["{volatile}"], health: {{ path: /health, interval: 100ms }} }}
caches: {{ pages: {{}} }}
consumers: [{{ name: "<img/src=x/onerror=window.attacked=1>", groups: ["<b>"] }}]
routes:
- name: "<img/src=x/onerror=window.attacked=1>"
  match: {{ path: /markup }}
  handler: {{ respond: {{}} }}
- name: limited
  match: {{ path: /limited }}
  filters: [{{ circuit_breaker: {{}} }}, {{ rate_limit: {{ rate: 1/h, burst: 1 }} }}]
  handler: {{ respond: {{}} }}
- {{ name: plain, match: {{ path: /plain }}, handler: {{ respond: {{}} }} }}
- name: page
  match: {{ path: /page }}
  handler: {{ respond: {{ headers: {{ content-type: text/html }}, body: "<!doctype html>" }} }}
- {{ name: lua, match: {{ path: /lua }}, handler: {{ lua: page.lua }} }}
- name: volatile
  match: {{ path: /volatile }}
  filters:
  - circuit_breaker:
      {{ name: "<img/src=x/onerror=window.attacked=1>", min_requests: 2, window: 1h }}
  handler: {{ upstream: volatile }}
- {{ name: api, match: {{ path: "/api/{{*rest}}" }}, handler: {{ upstream: shop }} }}
- name: cached
  match: {{ path: "/cached/{{*rest}}" }}
  filters: [{{ cache: pages }}]
  handler:
    respond: {{ headers: {{ cache-control: max-age=600, surrogate-key: cached }}, body: stored }}
{many}"#
    )
}

/// The path of a program, which playwright-core needs.
fn path_of(name: &str) -> PathBuf {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = std::env::split_paths(&directories).map(|directory| directory.join(name));
    paths.find(|path| path.is_file()).expect("the browser was found")
}

#[test]
fn chromium_visits_every_page_of_the_console() {
    let Some(exit) = visit(include_str!("console/visit.js"), 200) else { return };
    assert_eq!((exit.code, exit.stdout.trim()), (Some(0), "done"), "{}", exit.stderr);
}

/// Times mean something on an idle machine only: `make bench-console`.
#[test]
fn the_console_is_fast_with_5000_routes() {
    if std::env::var_os("CONSOLE_BARS").is_none() {
        return;
    }
    let Some(exit) = visit(include_str!("console/bars.js"), 5000) else { return };
    println!("{}", exit.stdout);
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}

/// Runs a program with a browser against a server with so many more routes.
fn visit(script: &str, routes: usize) -> Option<Exit> {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let (visitor, volatile) = (Visitor::found()?, volatile());
    let config = config(&upstream, &volatile, routes);
    let server = Launch::new(&config).file("page.lua", PAGE).start();
    Some(visitor.start(script, &server).wait())
}

/// A server that fails its health checks from `/fail` on, and passes them from `/recover` on. It
/// responds 503 to `/volatile?break`.
fn volatile() -> Upstream {
    let is_failing = AtomicBool::new(false);
    Upstream::start(move |peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            match head.split(' ').nth(1) {
                Some("/fail") => is_failing.store(true, Ordering::Relaxed),
                Some("/recover") => is_failing.store(false, Ordering::Relaxed),
                _ => {}
            }
            let is_check = head.starts_with("GET /health ");
            let status = match is_check && is_failing.load(Ordering::Relaxed) {
                true => 500,
                false if head.starts_with("GET /volatile?break ") => 503,
                false => 200,
            };
            // A check may have been given up.
            if !peer.try_send(format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nok")) {
                return;
            }
        }
    })
}

/// Chromium and the packages of its programs.
pub(crate) struct Visitor {
    browser: Browser,
    packages: PathBuf,
}

/// A running program of a visitor.
pub(crate) struct Visit {
    pub(crate) process: Process,
    _programs: TempDir,
}

impl Visitor {
    /// What is installed; says so if something is not.
    pub(crate) fn found() -> Option<Visitor> {
        let browser = Browser::found()?;
        let names = ["playwright-core@1.65.1", "axe-core@4.14.1"];
        Some(Visitor { browser, packages: node_packages("console", &names)? })
    }

    /// Starts a program that visits the console of a server.
    pub(crate) fn start(&self, script: &str, server: &Tidegate) -> Visit {
        // Node finds packages from where the program lies.
        let programs = TempDir::new_in(&self.packages).expect("a directory");
        let write = |name: &str, text: &str| {
            let path = programs.path().join(name);
            fs::write(&path, text).expect("written");
            path
        };
        write("browser.mjs", include_str!("console/browser.js"));
        let program = write("program.mjs", script);
        // The program ends its browser when it gets a signal.
        let mut node = command("timeout", &self.packages);
        node.args(["--kill-after=10", "240", "node"])
            .arg(program)
            .arg(path_of(self.browser.program()));
        node.arg(server.address("admin").to_string()).arg(server.address("web").to_string());
        // Pictures for the reader.
        if let Ok(directory) = std::env::var("CONSOLE_PICTURES") {
            node.arg(directory);
        }
        Visit { process: Process::start(&mut node), _programs: programs }
    }
}

impl Visit {
    /// Waits for the end of the program.
    pub(crate) fn wait(self) -> Exit {
        self.process.wait_within(VISIT_WITHIN)
    }
}
