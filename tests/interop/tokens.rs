//! `jwt` verifies the tokens of others: PyJWT, and jose for Node.

use std::path::Path;
use std::process::Command;

use scenarios::{Exit, Process};
use tempfile::TempDir;

use crate::tools::{gateway, prepared_node_packages, python_that_has};

/// Sends the tokens that a program has printed to a gateway with the keys it has written. A token
/// with another signature, and one with the algorithm of another key, are rejected.
fn verify(directory: &TempDir, made: &Exit) {
    assert_eq!(made.code, Some(0), "{made:?}");
    let keys = directory.path().join("keys.json");
    let server = gateway(&format!(
        "routes:\n\
         - match: {{}}\n  \
           filters: [{{ jwt: {{ key_set: \"{}\", audience: shop }} }}]\n  \
           handler: {{ respond: {{ headers: {{ x-seen: \"{{consumer}}\" }} }} }}\n",
        keys.display()
    ));
    let send = |token: &str| {
        let head = format!("GET / HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n");
        let response = server.exchange("web", head);
        (response.status, response.header("x-seen").map(str::to_owned))
    };
    let tokens: Vec<(&str, &str)> =
        made.stdout.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(tokens.len(), 13, "{made:?}");
    for (at, (algorithm, token)) in tokens.iter().enumerate() {
        assert_eq!(send(token), (200, Some("ann".to_owned())), "{algorithm}: {token}");
        let (signed, _) = token.rsplit_once('.').expect("a token");
        let (_, other) = tokens[(at + 1) % tokens.len()];
        let (_, signature) = other.rsplit_once('.').expect("a token");
        assert_eq!(send(&format!("{signed}.{signature}")).0, 401, "{algorithm}");
    }
}

#[test]
fn tokens_of_pyjwt_are_verified() {
    let Some(python) = python_that_has("jwt") else { return };
    let directory = TempDir::new().expect("a temporary directory");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/tokens.py");
    let keys = directory.path().join("keys.json");
    verify(&directory, &Process::run(Command::new(python).arg(program).arg(keys)));
}

#[test]
fn tokens_of_jose_are_verified() {
    let Some(packages) = prepared_node_packages("jose") else { return };
    let directory = TempDir::new().expect("a temporary directory");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/tokens.mjs");
    let keys = directory.path().join("keys.json");
    verify(&directory, &Process::run(Command::new("node").arg(program).arg(packages).arg(keys)));
}
