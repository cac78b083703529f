//! Both sides of TLS over a pair of streams; the certificates are made for each test.

mod challenge;
mod client;
mod ocsp;
mod packets;
mod resumption;

use std::future::poll_fn;
use std::io;

use bytes::Bytes;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use socket2::SockRef;

use super::*;
use crate::stream::Stream;
use crate::worker::block_on_local;
use crate::{FileRange, Outgoing};

/// A time at which the certificates of these tests are valid, in seconds since 1970.
const NOW: u64 = 1_800_000_000;

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2090, 1, 1);
    params
}

fn authority(name: &str) -> Issuer {
    let mut params = params(&[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Chain and key in PEM.
fn issue(issuer: &Issuer, params: CertificateParams) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    (certificate.pem() + &issuer.pem(), key.serialize_pem())
}

fn load((chain, key): &(String, String)) -> Result<CertificateKey, PairError> {
    CertificateKey::load(chain.as_bytes(), key.as_bytes(), None, NOW)
}

fn pair(issuer: &Issuer, names: &[&str]) -> CertificateKey {
    load(&issue(issuer, params(names))).unwrap()
}

fn server_options(issuer: &Issuer) -> ServerOptions {
    ServerOptions {
        answers_challenges: false,
        certificates: vec![pair(issuer, &["a.test"])],
        reject_unknown_names: false,
        min_version: TlsVersion::Tls12,
        protocols: Vec::new(),
        client_auth: None,
        ticket_keys: Vec::new(),
    }
}

fn client_options(issuer: &Issuer) -> ClientOptions {
    ClientOptions {
        authorities: Some(issuer.pem().into_bytes()),
        verify: true,
        certificate: None,
        min_version: TlsVersion::Tls12,
        protocols: Vec::new(),
    }
}

fn client(issuer: &Issuer) -> ClientTls {
    ClientTls::new(client_options(issuer)).unwrap()
}

type Sides = (Result<Stream, AcceptError>, io::Result<Stream>);

async fn connect(server: &ServerTls, client: &ClientTls, name: &str) -> Sides {
    let (one, other) = Stream::pair().unwrap();
    over(one, other, server, client, name).await
}

async fn over(
    one: Stream,
    other: Stream,
    server: &ServerTls,
    client: &ClientTls,
    name: &str,
) -> Sides {
    let name = CertificateName::new(name).unwrap();
    tokio::join!(one.accept_tls(server), other.connect_tls(client, &name))
}

async fn connected(options: ServerOptions, issuer: &Issuer, name: &str) -> (Stream, Stream) {
    let server = ServerTls::new(options).unwrap();
    let (one, other) = connect(&server, &client(issuer), name).await;
    (one.unwrap(), other.unwrap())
}

async fn send(stream: &Stream, bytes: impl Into<Bytes>) {
    let mut outgoing = Outgoing::default();
    outgoing.push(bytes.into());
    stream.send_all(&mut outgoing).await.unwrap();
}

/// Receives until the end.
async fn receive_all(stream: &Stream) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let chunk = stream.receive().await?;
        if chunk.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&chunk);
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

#[test]
fn both_sides_know_what_was_agreed() {
    block_on_local(async {
        let issuer = authority("ca");
        let mut options = server_options(&issuer);
        options.protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let server = ServerTls::new(options).unwrap();
        let protocols = vec![b"http/1.1".to_vec()];
        let client = ClientOptions { protocols, ..client_options(&issuer) };
        let client = ClientTls::new(client).unwrap();
        let (one, other) = connect(&server, &client, "A.test").await;
        let (one, other) = (one.unwrap(), other.unwrap());
        let info = one.tls().unwrap();
        assert_eq!(info.version_name(), "TLSv1.3");
        assert_eq!((info.cipher_name(), info.cipher), ("TLS_AES_256_GCM_SHA384", 0x1302));
        assert_eq!(info.server_name.as_deref(), Some("a.test"));
        assert_eq!(info.protocol.as_deref(), Some("http/1.1"));
        assert!(info.peer.is_none() && !info.is_resumed);
        let details = &other.tls().unwrap().peer.as_ref().unwrap().details;
        assert_eq!(details.dns_names().collect::<Vec<_>>(), ["a.test"]);
    });
}

#[test]
fn a_certificate_is_chosen_by_name() {
    block_on_local(async {
        let issuer = authority("ca");
        let mut options = server_options(&issuer);
        options.certificates.push(pair(&issuer, &["*.b.test"]));
        options.certificates.push(pair(&issuer, &["x.b.test"]));
        // (name, the first name of the certificate; None is a name that does not fit)
        for (name, presented) in [
            ("a.test", Some("a.test")),
            ("y.b.test", Some("*.b.test")),
            ("x.b.test", Some("x.b.test")),
            ("z.y.b.test", None),
            ("b.test", None),
        ] {
            let server = ServerTls::new(options.clone()).unwrap();
            let (_, other) = connect(&server, &client(&issuer), name).await;
            match presented {
                Some(presented) => {
                    let stream = other.unwrap();
                    let details = &stream.tls().unwrap().peer.as_ref().unwrap().details;
                    assert_eq!(details.dns_names().next(), Some(presented), "{name}");
                }
                None => assert!(is_certificate_error(&other.unwrap_err()), "{name}"),
            }
            let rejecting = ServerOptions { reject_unknown_names: true, ..options.clone() };
            let rejecting = ServerTls::new(rejecting).unwrap();
            let (one, _) = connect(&rejecting, &client(&issuer), name).await;
            assert_eq!(one.is_ok(), presented.is_some(), "{name}");
        }
    });
}

#[test]
fn client_certificates_are_demanded_and_verified() {
    block_on_local(async {
        let (issuer, other) = (authority("ca"), authority("other"));
        let certificate = |issuer: &Issuer| {
            let mut params = params(&["client.test"]);
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, "alice");
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            load(&issue(issuer, params)).unwrap()
        };
        // (required, the client's certificate, whether it is accepted)
        for (required, presented, accepted) in [
            (true, None, false),
            (false, None, true),
            (true, Some(certificate(&issuer)), true),
            (false, Some(certificate(&other)), false),
        ] {
            let authorities = issuer.pem().into_bytes();
            let client_auth = Some(ClientAuth { authorities, required });
            let options = ServerOptions { client_auth, ..server_options(&issuer) };
            let server = ServerTls::new(options).unwrap();
            let wishes =
                ClientOptions { certificate: presented.clone(), ..client_options(&issuer) };
            let client = ClientTls::new(wishes).unwrap();
            let (one, _other) = connect(&server, &client, "a.test").await;
            assert_eq!(one.is_ok(), accepted, "{required} {presented:?} {one:?}");
            if let (Ok(one), Some(_)) = (&one, presented) {
                let details = &one.tls().unwrap().peer.as_ref().unwrap().details;
                assert_eq!(&*details.subject, "CN=alice");
                assert_eq!(details.names, [AlternativeName::Dns("client.test".into())]);
                assert_eq!(details.fingerprint.len(), 64);
            }
        }
    });
}

#[test]
fn bytes_and_files_arrive_whole_however_small_the_socket_is() {
    block_on_local(async {
        let issuer = authority("ca");
        let (one, other) = Stream::pair().unwrap();
        for stream in [&one, &other] {
            SockRef::from(stream.source()).set_send_buffer_size(4096).unwrap();
        }
        let server = ServerTls::new(server_options(&issuer)).unwrap();
        let (one, other) = over(one, other, &server, &client(&issuer), "a.test").await;
        let (one, other) = (one.unwrap(), other.unwrap());
        let content = pattern(300_000);
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &content).unwrap();
        let sending = async {
            let mut outgoing = Outgoing::default();
            outgoing.push(Bytes::from_static(b"head"));
            let file = std::sync::Arc::new(file);
            outgoing.push_file(FileRange { file, offset: 1, length: 299_999 });
            outgoing.push(Bytes::from(content.clone()));
            one.send_all(&mut outgoing).await.unwrap();
            assert!(outgoing.is_empty() && outgoing.length() == 0);
            // Slices are sent with whatever was taken of them.
            let mut rest = &content[..];
            while !rest.is_empty() {
                match one.try_send_slice(rest) {
                    Ok(sent) => rest = &rest[sent..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        poll_fn(|cx| one.poll_writable(cx)).await.unwrap();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            one.finish();
        };
        let (received, ()) = tokio::join!(receive_all(&other), sending);
        let wanted = [b"head", &content[1..], &content, &content].concat();
        assert!(received.unwrap() == wanted);
    });
}

#[test]
fn a_borrower_sees_a_record_where_it_was_decrypted_and_leaves_the_rest() {
    block_on_local(async {
        let issuer = authority("ca");
        let (one, other) = connected(server_options(&issuer), &issuer, "a.test").await;
        send(&other, "abcdef").await;
        poll_fn(|cx| one.poll_readable(cx)).await.unwrap();
        let chunk = loop {
            match one.try_receive_with(|bytes| {
                assert_eq!(bytes, b"abcdef");
                2
            }) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll_fn(|cx| one.poll_readable(cx)).await.unwrap();
                }
                chunk => break chunk.unwrap(),
            }
        };
        assert_eq!((chunk.length, &chunk.rest[..]), (6, &b"cdef"[..]));
        // Two records that are read at once, in bounded parts.
        send(&other, "ghi").await;
        send(&other, "jkl").await;
        poll_fn(|cx| one.poll_readable(cx)).await.unwrap();
        assert_eq!(one.try_receive_up_to(4).unwrap(), "ghij");
        let mut room = [0; 8];
        assert_eq!(one.try_receive_into(&mut room).unwrap(), 2);
        assert_eq!(&room[..2], b"kl");
        assert!(one.is_idle());
    });
}

#[test]
fn an_end_is_distinguished_from_a_truncation() {
    block_on_local(async {
        let issuer = authority("ca");
        let (one, other) = connected(server_options(&issuer), &issuer, "a.test").await;
        send(&one, "all").await;
        one.finish();
        assert_eq!(receive_all(&other).await.unwrap(), b"all");
        let (one, other) = connected(server_options(&issuer), &issuer, "a.test").await;
        send(&one, "part").await;
        drop(one);
        let truncated = receive_all(&other).await.unwrap_err();
        assert_eq!(truncated.kind(), io::ErrorKind::UnexpectedEof);
        // Many clients end without it; a request has its own framing.
        let (one, other) = connected(server_options(&issuer), &issuer, "a.test").await;
        // Its tickets are read: closing a socket with unread bytes is a reset.
        assert!(other.has_bytes().is_err());
        drop(other);
        assert_eq!(receive_all(&one).await.unwrap(), b"");
    });
}

#[test]
fn a_connection_with_unread_tickets_is_idle_and_one_that_ends_is_not() {
    block_on_local(async {
        let issuer = authority("ca");
        let (one, other) = connected(server_options(&issuer), &issuer, "a.test").await;
        assert!(other.is_idle(), "the tickets were not taken for a response");
        assert_eq!(other.has_bytes().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let parked = other.park().unwrap();
        assert!(parked.is_idle());
        let other = parked.adopt().unwrap();
        send(&other, "still there").await;
        assert_eq!(one.receive().await.unwrap(), "still there");
        let parked = other.park().unwrap();
        one.finish();
        assert!(!parked.is_idle());
    });
}

#[test]
fn plain_http_is_recognised_and_garbage_rejected() {
    block_on_local(async {
        let issuer = authority("ca");
        let server = ServerTls::new(server_options(&issuer)).unwrap();
        let (one, other) = Stream::pair().unwrap();
        send(&other, "GET / HTTP/1.1\r\n\r\n").await;
        let Err(AcceptError::PlainText(one, received)) = one.accept_tls(&server).await else {
            panic!("taken for TLS")
        };
        assert_eq!(received, "GET / HTTP/1.1\r\n\r\n");
        send(&one, "plain").await;
        assert_eq!(other.receive().await.unwrap(), "plain");
        for garbage in [&b"\0\0\0\0\0\0\0\0"[..], &[0x16, 3, 1, 0xff, 0xff], &[0xff; 1000]] {
            let (one, other) = Stream::pair().unwrap();
            send(&other, garbage).await;
            let Err(AcceptError::Failed(error)) = one.accept_tls(&server).await else {
                panic!("{garbage:?} was accepted")
            };
            assert!(is_tls_error(&error), "{error}");
            // A fatal alert was sent before the close.
            assert_eq!(other.receive().await.unwrap()[0], 0x15);
        }
    });
}

#[test]
fn a_handshake_that_does_not_end_is_bounded() {
    block_on_local(async {
        let issuer = authority("ca");
        let server = ServerTls::new(server_options(&issuer)).unwrap();
        let (one, other) = Stream::pair().unwrap();
        let flooding = async {
            // A client hello of 16 MiB, in records of 16 KiB.
            let mut record = vec![0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
            record.resize(5 + 0x4000, 0);
            let mut outgoing = Outgoing::default();
            for _ in 0..64 {
                outgoing.push(Bytes::from(record.clone()));
            }
            other.send_all(&mut outgoing).await
        };
        let (accepted, _) = tokio::join!(one.accept_tls(&server), flooding);
        let Err(AcceptError::Failed(error)) = accepted else { panic!("accepted") };
        assert!(is_tls_error(&error), "{error}");
    });
}

#[test]
fn a_pair_is_checked_as_a_whole() {
    let issuer = authority("ca");
    let good = issue(&issuer, params(&["a.test"]));
    let other = issue(&issuer, params(&["a.test"]));
    let mut expired = params(&["a.test"]);
    expired.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let mut future = params(&["a.test"]);
    future.not_before = rcgen::date_time_ymd(2089, 1, 1);
    let (chain, key) = &good;
    let end = "-----END CERTIFICATE-----\n";
    let (own, issuers) = chain.split_at(chain.find(end).unwrap() + end.len());
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (chain, key, why) in [
        (chain.clone(), other.1, "the private key does not belong to the certificate"),
        (String::new(), key.clone(), "no certificate: expected PEM"),
        (key.clone(), key.clone(), "no certificate: expected PEM"),
        (chain.replace('M', "!"), key.clone(), "not valid PEM"),
        (chain.clone(), chain.clone(), "no private key in PEM"),
        (chain.clone(), encrypted.to_owned(), "the private key is encrypted"),
        (format!("{own}{own}{issuers}"), key.clone(), "the chain is out of order: certificate 2"),
        (issue(&issuer, expired).0, key.clone(), "the certificate expired on 2021-01-01T00:00:00Z"),
        (issue(&issuer, future).0, key.clone(), "the certificate is not valid before 2089-01-01"),
    ] {
        let error = load(&(chain, key)).unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}");
    }
    for (ocsp, why) in [
        (&[0x30, 3, 0x0a, 1, 6][..], "the OCSP response is an error, status 6"),
        (b"-----BEGIN", "not an OCSP response in DER"),
    ] {
        let loaded =
            CertificateKey::load(chain.as_bytes(), key.as_bytes(), Some(ocsp.to_vec()), NOW);
        assert_eq!(loaded.unwrap_err(), PairError::Ocsp(why.to_owned()));
    }
}

#[test]
fn an_old_client_is_rejected() {
    block_on_local(async {
        let issuer = authority("ca");
        let options = ServerOptions { min_version: TlsVersion::Tls13, ..server_options(&issuer) };
        let server = ServerTls::new(options).unwrap();
        let (one, other) = Stream::pair().unwrap();
        // A client hello of TLS 1.1 with one cipher suite and no extensions.
        let mut hello = vec![0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 2];
        hello.extend([7; 32]);
        hello.extend([0, 0, 2, 0, 0x2f, 1, 0]);
        send(&other, hello).await;
        let Err(AcceptError::Failed(error)) = one.accept_tls(&server).await else {
            panic!("accepted")
        };
        assert!(is_tls_error(&error), "{error}");
        // A fatal alert.
        assert_eq!(other.receive().await.unwrap()[..6], [0x15, 3, 3, 0, 2, 2]);
    });
}

#[test]
fn a_connection_serves_the_names_of_its_certificate() {
    let issuer = authority("ca");
    let mut options = server_options(&issuer);
    options.certificates.push(pair(&issuer, &["b.test", "*.b.test", "c.test"]));
    let tls = ServerTls::new(options).unwrap();
    for (name, host, served) in [
        ("a.test", "a.test", true),
        ("a.test", "b.test", false),
        ("b.test", "c.test", true),
        ("x.b.test", "c.test", true),
        ("b.test", "x.b.test", true),
        ("b.test", "x.y.b.test", false),
        ("b.test", "a.test", false),
        // The default certificate was presented.
        ("other.test", "other.test", true),
        ("other.test", "a.test", true),
        ("other.test", "b.test", false),
    ] {
        assert_eq!(tls.serves(name, host), served, "{name} {host}");
    }
}
