//! Files of addresses, users and keys that change while the server runs.

use scenarios::{Launch, Tidegate, eventually};

use crate::consumers::{BCRYPT, BOB};
use crate::identity::{KEYS, TOKEN};

const CONFIG: &str = r#"
workers: 2
trusted_proxies: ["127.0.0.1"]
listeners: { web: { bind: "127.0.0.1:0" } }
admin: { bind: "127.0.0.1:0" }
consumers: [{ name: bob, password: "BCRYPT" }]
routes:
  - match: { path: /addresses }
    filters: [{ deny: { ip_files: blocked.txt } }]
    handler: { respond: {} }
  - match: { path: /users }
    filters: [{ basic_auth: { htpasswd: users } }]
    handler: { respond: {} }
  - match: { path: /keys }
    filters: [{ jwt: { key_set: keys.json, issuer: "https://id.test", audience: shop } }]
    handler: { respond: {} }
"#;

fn start() -> Tidegate {
    Launch::new(&CONFIG.replace("BCRYPT", BCRYPT))
        .file("blocked.txt", "192.0.2.0/24\n")
        .file("users", format!("bob:{BCRYPT}\n"))
        .file("keys.json", KEYS)
        .start()
}

fn status(server: &Tidegate, path: &str, fields: &str) -> u16 {
    server.exchange("web", format!("GET {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n")).status
}

#[test]
fn a_changed_list_of_addresses_is_in_use_and_a_broken_one_is_not() {
    let server = start();
    let of =
        |client: &str| status(&server, "/addresses", &format!("x-forwarded-for: {client}\r\n"));
    assert_eq!((of("192.0.2.7"), of("198.51.100.7")), (403, 200));
    server.write("blocked.txt", "198.51.100.0/24\n");
    eventually("the new list is in use", || (of("192.0.2.7"), of("198.51.100.7")) == (200, 403));
    server.write("blocked.txt", "192.0.2.0/24\n198.51.100.1/24\n");
    server.wait_for_log("configuration rejected");
    assert_eq!((of("192.0.2.7"), of("198.51.100.7")), (200, 403));
}

#[test]
fn a_user_that_is_removed_from_the_file_is_rejected() {
    let server = start();
    let bob = || status(&server, "/users", BOB);
    assert_eq!(bob(), 200);
    server.write("users", format!("ann:{BCRYPT}\n"));
    eventually("bob is removed", || bob() == 401);
    server.write("users", format!("ann:{BCRYPT}\nbob:{BCRYPT}\n"));
    eventually("bob is listed again", || bob() == 200);
    // An empty file does not mean the passwords of consumers, of which bob is one.
    server.write("users", "");
    eventually("there are no users", || bob() == 401);
}

#[test]
fn a_changed_key_set_ends_tokens_of_other_keys() {
    let server = start();
    let with_token = || status(&server, "/keys", &format!("authorization: Bearer {TOKEN}\r\n"));
    assert_eq!(with_token(), 200);
    // The key of RFC 8037, appendix A.
    let other = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1",
        "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    server.write("keys.json", other);
    eventually("the new key is in use", || with_token() == 401);
    server.write("keys.json", "{");
    server.wait_for_log("configuration rejected");
    assert_eq!(with_token(), 401);
    server.write("keys.json", KEYS);
    eventually("the first key is in use again", || with_token() == 200);
}
