//! How the configuration is read: nothing waits for a slow file, and no change falls between
//! reading a file and watching it.

use scenarios::{Tidegate, eventually};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const MAIN: &str = r#"
workers: 1
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
"#;

fn route(body: &str) -> String {
    format!("routes: [{{ match: {{ path: /a }}, handler: {{ respond: {{ body: {body} }} }} }}]\n")
}

fn wait_for(server: &Tidegate, body: &str) {
    eventually(&format!("the response is {body}"), || {
        server.exchange("web", "GET /a HTTP/1.1\r\nhost: a\r\n\r\n").text() == body
    });
}

fn made_pipe(server: &Tidegate, name: &str) -> PathBuf {
    let pipe = server.path(name);
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    pipe
}

/// Returns when the server reads the pipe, in which there is nothing yet.
fn opened(pipe: &Path) -> File {
    File::options().write(true).open(pipe).expect("a pipe opens")
}

#[test]
fn a_file_that_is_slow_to_read_delays_no_other_request() {
    let server = Tidegate::start(&format!("{MAIN}{}", route("one")));
    wait_for(&server, "one");
    let pipe = made_pipe(&server, "pipe.yaml");
    server.rewrite_config(&format!("include: [pipe.yaml]\n{MAIN}"));
    let mut pipe = opened(&pipe);
    let health = server.exchange("admin", "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(health.status, 200);
    wait_for(&server, "one");
    pipe.write_all(route("two").as_bytes()).expect("the server reads");
    drop(pipe);
    wait_for(&server, "two");
}

#[test]
fn a_change_in_a_directory_that_is_not_watched_yet_is_not_missed() {
    const OTHER: &str = "timeouts: { drain: 1s }\n";
    let server = Tidegate::start(&format!("{MAIN}{}", route("none")));
    wait_for(&server, "none");
    std::fs::create_dir(server.path("new")).expect("a directory can be made");
    server.write("new/a.yaml", route("first"));
    let pipe = made_pipe(&server, "new/b.yaml");
    server.rewrite_config(&format!("include: [new/a.yaml, new/b.yaml]\n{MAIN}"));
    let mut writer = opened(&pipe);
    // The first file has been read, and is not watched yet.
    server.write("new/a.yaml", route("second"));
    server.write("new/c.yaml", OTHER);
    std::fs::rename(server.path("new/c.yaml"), &pipe).expect("a file takes the place of the pipe");
    writer.write_all(OTHER.as_bytes()).expect("the server reads");
    drop(writer);
    wait_for(&server, "second");
}
