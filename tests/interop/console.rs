//! The console in Chromium: every page with real requests, both themes, three widths, accessibility
//! by axe, roles, and markup in everything that a client can send.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use scenarios::{Exit, Launch, Process, Upstream};

use crate::tools::{Browser, command, node_packages};

/// The configuration is written so that the page can change it: secrets are visible to `all`.
fn config(upstream: &str, routes: usize) -> String {
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
upstreams: {{ shop: {{ servers: ["{upstream}"] }} }}
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
- {{ name: api, match: {{ path: "/api/{{*rest}}" }}, handler: {{ upstream: shop }} }}
- name: cached
  match: {{ path: "/cached/{{*rest}}" }}
  filters: [{{ cache: pages }}]
  handler: {{ respond: {{ headers: {{ cache-control: max-age=600 }}, body: stored }} }}
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
    let browser = Browser::found()?;
    let names = ["playwright-core@1.65.1", "axe-core@4.14.1"];
    let packages = node_packages("console", &names)?;
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let server = Launch::new(&config(&upstream.address().to_string(), routes)).start();
    // Node finds packages from where the program lies.
    let program = tempfile::Builder::new().suffix(".mjs").tempfile_in(&packages).expect("a file");
    fs::write(program.path(), script).expect("written");
    // The program ends its browser when it gets a signal.
    let mut node = command("timeout", &packages);
    node.args(["--kill-after=10", "240", "node"])
        .arg(program.path())
        .arg(path_of(browser.program()));
    node.arg(server.address("admin").to_string()).arg(server.address("web").to_string());
    // Pictures for the reader.
    if let Ok(directory) = std::env::var("CONSOLE_PICTURES") {
        node.arg(directory);
    }
    Some(Process::start(&mut node).wait_within(Duration::from_secs(270)))
}
