//! A key in the query stands in no line of the access log: not where a filter in front of
//! `key_auth` answers, not where the key is passed on, not in Referer.

use crate::setup::responding;
use scenarios::{Tidegate, eventually_some};

const KEY: &str = "hunter2hunter2";

fn config(format: &str) -> String {
    let key = "76880d60191af3b3f803a656b7716f0179928357fc32421ced973ed265e15718";
    responding(&format!(
        r#"
defaults:
  filters:
    - rate_limit: {{ rate: 1/h, burst: 2 }}
    - key_auth:
        keys: [{{ consumer: ann, sha256: "{key}" }}]
        from: {{ query: auth }}
        hide: false
log: {{ access: {{ format: {format}, path: a.log }} }}
"#
    ))
}

#[test]
fn a_key_is_masked_wherever_its_request_ends() {
    let own = "'{target} {header.referer} {query.auth} {status}'";
    for format in ["json", "combined", own] {
        let server = Tidegate::start(&config(format));
        let mut client = server.connect("web");
        let mut statuses = Vec::new();
        for _ in 0..3 {
            client.send(format!(
                "GET /ping?n=1&auth={KEY} HTTP/1.1\r\nhost: a\r\nreferer: /?%61uth={KEY}\r\n\r\n"
            ));
            statuses.push(client.read_response().status);
        }
        assert_eq!(statuses, [200, 200, 429]);

        let log = eventually_some("three lines in the access log", || {
            let log = std::fs::read_to_string(server.path("a.log")).unwrap_or_default();
            (log.lines().count() == 3).then_some(log)
        });
        assert!(!log.contains(KEY), "{log}");
        assert_eq!(log.matches("n=1&auth=***").count(), 3, "{log}");
        assert_eq!(log.matches("/?%61uth=***").count(), 3, "{log}");
    }
}
