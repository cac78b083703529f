//! Every field of a head there and back, and bytes that are none.

use bytes::Bytes;
use net::tls::{AlternativeName, CertificateDetails, PeerCertificate, TlsInfo};

use super::*;

fn certificate() -> PeerCertificate {
    let details = CertificateDetails {
        subject: "CN=a".into(),
        names: vec![
            AlternativeName::Dns("a.test".into()),
            AlternativeName::Ip("::1".into()),
            AlternativeName::Email("a@a.test".into()),
            AlternativeName::Uri("urn:a".into()),
        ],
        fingerprint: "0a".into(),
        not_before: 1,
        not_after: u64::MAX,
    };
    PeerCertificate { details, chain: vec![Box::from([1, 2]), Box::from([0; 300])] }
}

fn heads() -> Vec<Head> {
    let mut headers = Headers::new();
    headers.append(Known::Host, "example.com");
    headers.append("x-own", "1");
    headers.append("X-Long", "v".repeat(1000));
    headers.append(Known::XXssProtection, "");
    let target = |raw: &'static str| Target::new(Bytes::from_static(raw.as_bytes())).unwrap();
    let mut rewritten = target("/a%20b/42?q=1");
    rewritten.replace_path(b"/new").unwrap();
    let plain = Head {
        method: Method::Get,
        version: Version::Http11,
        target: target("/plain?x"),
        headers,
        body_length: Some(0),
        client_ip: "10.0.0.1".parse().unwrap(),
        scheme: Scheme::Http,
        peer: Peer::Tcp("127.0.0.1:1234".parse().unwrap()),
        local: Bind::Tcp("127.0.0.1:80".parse().unwrap()),
        tls: None,
    };
    let full = Head {
        method: Method::parse(b"PURGE").unwrap(),
        version: Version::Http10,
        target: rewritten,
        headers: Headers::new(),
        body_length: None,
        client_ip: "2001:db8::1".parse().unwrap(),
        scheme: Scheme::Https,
        peer: Peer::Unix,
        local: Bind::Unix(PathBuf::from("/run/web.sock")),
        tls: Some(TlsInfo {
            version: 0x0304,
            cipher: 0x1302,
            protocol: Some("http/1.1".into()),
            server_name: Some("example.com".into()),
            is_resumed: true,
            peer: Some(Box::new(certificate())),
            presented: None,
        }),
    };
    let v6 = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 9, 7, 3);
    let other = Head {
        version: Version::Http2,
        target: Target::whole_server(),
        peer: Peer::Tcp(v6.into()),
        local: Bind::Tcp(v6.into()),
        tls: Some(TlsInfo::default()),
        body_length: Some(u64::MAX),
        ..full.clone()
    };
    let long = "/é".repeat(300);
    let target = Target::new(Bytes::from(long)).unwrap();
    vec![plain.clone(), full, other, Head { target, ..plain }]
}

fn encoded(head: &Head) -> Vec<u8> {
    let mut out = Vec::new();
    head.encode(&mut out);
    out
}

#[test]
fn every_field_comes_back() {
    for head in heads() {
        let back = Head::decode(&encoded(&head)).unwrap();
        // The debug form also shows private fields.
        assert_eq!(format!("{back:?}"), format!("{head:?}"));
        assert_eq!(back.target.is_asterisk(), head.target.is_asterisk());
        let names = |head: &Head| head.headers.iter().map(|field| field.known).collect::<Vec<_>>();
        assert_eq!(names(&back), names(&head));
    }
    const { assert!(Known::COUNT < 0xFF) };
}

#[test]
fn other_bytes_are_unreadable_and_cause_no_panic() {
    for head in heads() {
        let bytes = encoded(&head);
        for end in 0..bytes.len() {
            assert_eq!(Head::decode(&bytes[..end]).err(), Some(Unreadable), "cut at {end}");
        }
        let longer = [&bytes[..], b"x"].concat();
        assert!(Head::decode(&longer).is_err());
        // A changed byte may give a valid head, which must survive another round trip.
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xFF] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                if let Ok(head) = Head::decode(&bytes) {
                    let back = Head::decode(&encoded(&head)).unwrap();
                    assert_eq!(format!("{back:?}"), format!("{head:?}"));
                    let _ = (head.target.path(), head.target.query(), head.target.routed_path());
                }
            }
        }
    }
}

#[test]
fn lengths_have_one_spelling() {
    for length in [0, 254, 255, 256, 70_000] {
        let mut out = Vec::new();
        put_length(&mut out, length);
        let mut from = Reader::new(&out);
        assert_eq!(from.length(), Ok(length));
        assert!(from.is_at_end());
    }
    assert_eq!(Reader::new(&[0xFF, 1, 0, 0, 0]).length(), Err(Unreadable));
}

#[test]
fn a_field_that_is_none_is_refused_or_made_harmless() {
    let mut out = vec![1, 0];
    put_bytes(&mut out, b"not a name");
    put_bytes(&mut out, b"value");
    assert!(Reader::new(&out).fields().is_err());
    let mut out = vec![1, 0];
    put_bytes(&mut out, b"name");
    put_bytes(&mut out, b"a\r\nset-cookie: b");
    let headers = Reader::new(&out).fields().unwrap();
    assert_eq!(headers.get("name"), Some(&b"a  set-cookie: b"[..]));
}
