//! The example of the page in the guide, as it stands there.

use scenarios::{Launch, Upstream};
use std::path::Path;

/// The blocks of a page that are marked with this word, each with the rest of its mark.
fn blocks<'p>(page: &'p str, kind: &str) -> Vec<(&'p str, &'p str)> {
    let parts = page.split("```").skip(1).step_by(2);
    let marked = parts.filter_map(|block| block.strip_prefix(kind)?.split_once('\n'));
    marked.map(|(mark, text)| (mark.trim(), text)).collect()
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/lua/subrequests.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let users = Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            peer.send(match head.split(' ').nth(1) {
                Some("/users/7") => {
                    "HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{\"name\":\"Ada\"}"
                }
                Some("/session") if head.to_ascii_lowercase().contains("cookie: ok") => {
                    "HTTP/1.1 204 No Content\r\n\r\n"
                }
                _ => "HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n",
            });
        }
    });
    let orders = Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            peer.send(match head.split(' ').nth(1) {
                Some("/orders?user=7") => "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n[1, 2]",
                Some("/export?user=7") => {
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\na,b\r\n0\r\n\r\n"
                }
                _ => "HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n",
            });
        }
    });
    let (_, config) = blocks(&page, "yaml")[0];
    let config = config
        .replace("127.0.0.1:8080", "127.0.0.1:0")
        .replace("127.0.0.1:9001", &users.address().to_string())
        .replace("127.0.0.1:9002", &orders.address().to_string());
    let files = blocks(&page, "lua");
    let launch = files.iter().fold(Launch::new(&config), |l, (name, text)| l.file(name, text));
    let server = launch.start();
    let get = |target: &str, cookie: &str| {
        server.exchange(
            "web",
            format!("GET {target} HTTP/1.1\r\nhost: a\r\ncookie: {cookie}\r\n\r\n"),
        )
    };
    assert_eq!(get("/overview/7", "no").status, 401);
    let overview = get("/overview/7", "ok");
    let said: serde_json::Value = serde_json::from_slice(&overview.body).expect("JSON");
    assert_eq!(said, serde_json::json!({ "name": "Ada", "orders": [1, 2] }));
    assert_eq!(get("/overview/8", "ok").status, 502);
    let export = get("/export/7", "no");
    assert_eq!((export.status, export.text().as_str()), (200, "a,b"));
    assert_eq!(export.header("content-disposition"), Some("attachment"));
}
