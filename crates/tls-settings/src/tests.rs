//! Declarations, and errors at the files that they concern.

use rcgen::{CertificateParams, KeyPair};
use settings::{Reader, Report, Span, node, read, verify};
use tempfile::TempDir;

use crate::ListenerTlsSettings;

/// A directory with a self-signed certificate and its key, the key of another one, and an expired
/// certificate with its key.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, content: String| {
        std::fs::write(directory.path().join(name), content).unwrap();
    };
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    write("a.pem", params.self_signed(&key).unwrap().pem());
    params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    write("expired.pem", params.self_signed(&key).unwrap().pem());
    write("a.key", key.serialize_pem());
    write("b.key", KeyPair::generate().unwrap().serialize_pem());
    write("short", "x".repeat(31));
    write("ticket", "x".repeat(80));
    directory
}

fn path(directory: &TempDir, name: &str) -> String {
    directory.path().join(name).to_str().unwrap().to_owned()
}

#[test]
fn every_declaration_holds() {
    verify::<ListenerTlsSettings>().unwrap();
}

#[test]
fn a_listener_is_built_from_its_files() {
    let directory = directory();
    let at = |name| path(&directory, name);
    let (cert, key, ticket) = (at("a.pem"), at("a.key"), at("ticket"));
    let settings: ListenerTlsSettings = read(&node!({
        "certificates": [{ "cert": cert, "key": key }],
        "unknown_name": "reject",
        "min_version": "1.3",
        "client_auth": { "ca": cert, "mode": "optional" },
        "ticket_keys": [ticket],
    }))
    .unwrap();
    let mut report = Report::new();
    let built = settings.build(&[b"http/1.1"], Span::NOWHERE, &mut Reader::new(&mut report));
    let options = built.expect("no error").server.options().clone();
    assert_eq!(options.certificates[0].details.dns_names().collect::<Vec<_>>(), ["a.test"]);
    assert!(options.reject_unknown_names && !options.client_auth.unwrap().required);
    assert_eq!(options.min_version, net::tls::TlsVersion::Tls13);
    assert_eq!((options.protocols, options.ticket_keys.len()), (vec![b"http/1.1".to_vec()], 1));
}

#[test]
fn errors_name_the_file() {
    let directory = directory();
    let at = |name| path(&directory, name);
    let (cert, key) = (at("a.pem"), at("a.key"));
    let pair = |cert: &str, key: &str| node!({ "certificates": [{ "cert": cert, "key": key }] });
    for (node, expected) in [
        (pair(&cert, &at("b.key")), "b.key: the private key does not belong to the certificate"),
        (pair(&at("expired.pem"), &key), "expired.pem: the certificate expired on 2001-01-01"),
        (pair(&key, &key), "a.key: no certificate"),
        (pair(&cert, &cert), "a.pem: no private key"),
        (pair(&at("none"), &key), "cannot read"),
        (node!({ "certificates": [] }), "no certificate"),
        (node!({ "certificates": [{ "cert": cert }] }), "key"),
        (node!({ "certificates": [], "min_version": "1.1" }), "1.1"),
        (node!({ "acme": { "domains": [] } }), "without domains"),
        (node!({ "acme": { "domains": ["*.a.test"] } }), "write dns_hook"),
        (node!({ "acme": { "domains": ["10.0.0.1"] } }), "not a public DNS name"),
        (node!({ "acme": { "domains": ["localhost"] } }), "not a public DNS name"),
        (node!({ "acme": { "domains": ["a.test"], "email": "ops" } }), "email is an address"),
        (node!({ "acme": { "domains": ["a.test"], "challenge": "dns-01" } }), "needs dns_hook"),
        (node!({ "acme": { "domains": ["a.test"], "dns_hook": [] } }), "names no command"),
        (node!({ "acme": { "domains": ["a.test"], "directory": "http://a" } }), "https://"),
        (
            node!({ "acme": { "domains": ["a.test"], "eab": { "key_id": "k", "mac_key": "+/" } } }),
            "mac_key is not base64url",
        ),
    ] {
        let out = read::<ListenerTlsSettings>(&node).unwrap_err();
        assert!(out.contains(expected), "{out}\nwanted {expected}");
    }
    let ocsp = node!({ "certificates": [{ "cert": cert, "key": key, "ocsp": key }] });
    let out = read::<ListenerTlsSettings>(&ocsp).unwrap_err();
    assert!(out.contains("a.key: not an OCSP response in DER"), "{out}");
}

#[test]
fn errors_of_the_second_step_name_the_file() {
    let directory = directory();
    let at = |name| path(&directory, name);
    let (cert, key, short) = (at("a.pem"), at("a.key"), at("short"));
    for (node, expected) in [
        (
            node!({ "certificates": [{ "cert": cert, "key": key }], "client_auth": { "ca": key } }),
            "a.key: no certificate",
        ),
        (
            node!({ "certificates": [{ "cert": cert, "key": key }], "ticket_keys": [short] }),
            "short: a key of session tickets has 32 bytes or more",
        ),
    ] {
        let settings: ListenerTlsSettings = read(&node).unwrap();
        let mut report = Report::new();
        let built = settings.build(&[], Span::NOWHERE, &mut Reader::new(&mut report));
        let out = report.render();
        assert!(built.is_none() && out.contains(expected), "{out}\nwanted {expected}");
    }
}

#[test]
fn a_stored_certificate_is_used_unless_it_is_unusable() {
    let directory = directory();
    let storage = path(&directory, "state");
    let settings: ListenerTlsSettings =
        read(&node!({ "acme": { "domains": ["b.test", "A.test"], "storage": storage } })).unwrap();
    let build = || {
        let mut report = Report::new();
        let built = settings.build(&[], Span::NOWHERE, &mut Reader::new(&mut report));
        let built = built.unwrap_or_else(|| panic!("{}", report.render()));
        (built.acme.unwrap(), built.server.options().certificates.len())
    };
    let (plan, certificates) = build();
    assert_eq!(
        (&*plan.domains, certificates),
        (&["a.test".to_owned(), "b.test".to_owned()][..], 0)
    );
    std::fs::create_dir(&storage).unwrap();
    for (certificate, expected) in [("a.pem", 1), ("expired.pem", 0), ("short", 0)] {
        let content =
            [certificate, "a.key"].map(|name| std::fs::read(path(&directory, name)).unwrap());
        std::fs::write(&plan.certificate_file, content.concat()).unwrap();
        assert_eq!(build().1, expected, "{certificate}");
    }
}
