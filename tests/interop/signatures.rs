//! `hmac_auth` verifies the signatures of http-message-signatures, which implements RFC 9421 in
//! Python.

use std::path::Path;
use std::process::Command;

use scenarios::{Exit, Process};
use tempfile::TempDir;

use crate::tools::{gateway, python_that_has};

const ALGORITHMS: [&str; 5] =
    ["hmac-sha256", "ed25519", "ecdsa-p256-sha256", "rsa-pss-sha512", "rsa-v1_5-sha256"];

#[test]
fn signatures_of_http_message_signatures_are_verified() {
    let Some(python) = python_that_has("http_message_signatures") else { return };
    let directory = TempDir::new().expect("a temporary directory");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/signatures.py");
    let run = |arguments: &[&str]| -> Exit {
        let exit = Process::run(Command::new(&python).arg(&program).args(arguments));
        assert_eq!(exit.code, Some(0), "{exit:?}");
        exit
    };
    let path = directory.path().to_str().expect("a path in UTF-8");
    run(&["keys", path]);
    let keys = ALGORITHMS.map(|name| match name {
        "hmac-sha256" => "secret: 0123456789abcdef0123456789abcdef".to_owned(),
        _ => format!("public_key: \"{path}/{name}.pub\""),
    });
    let keys = ALGORITHMS.iter().zip(keys);
    let consumers: String = keys
        .map(|(name, key)| {
            format!(
                "  - {{ name: of-{name}, signature_keys: [{{ id: {name}, algorithm: {name}, {key} \
                 }}] }}\n"
            )
        })
        .collect();
    let server = gateway(&format!(
        "consumers:\n{consumers}\
         routes:\n\
         - match: {{}}\n  \
           filters: [{{ hmac_auth: {{}} }}]\n  \
           handler: {{ respond: {{ headers: {{ x-seen: \"{{consumer}}\" }} }} }}\n"
    ));
    let sent = run(&["send", &format!("http://{}", server.address("web")), path]).stdout;
    // The good request; then another method, query, path and body, and the same request again.
    let expected: String = ALGORITHMS
        .iter()
        .map(|name| format!("{name} 200 of-{name} 401 401 401 401 401\n"))
        .collect();
    assert_eq!(sent, expected);
}
