//! The challenge `tls-alpn-01`, with and without protocols of the server's own.

use super::*;

fn asking(issuer: &Issuer, protocols: &[&[u8]]) -> ClientTls {
    let protocols = protocols.iter().map(|name| name.to_vec()).collect();
    // The challenge certificate is signed by itself.
    ClientTls::new(ClientOptions { protocols, verify: false, ..client_options(issuer) }).unwrap()
}

#[test]
fn only_an_authority_is_presented_the_challenge_certificate() {
    block_on_local(async {
        let (issuer, other) = (authority("ca"), authority("other"));
        let (chain, key) = issue(&other, params(&["challenged.test"]));
        let name = "challenged.test";
        let challenge = ChallengeCertificate::present(name, chain.as_bytes(), key.as_bytes());
        let proof = load(&(chain, key)).unwrap();
        for own in [&[][..], &[&b"h2"[..]]] {
            let mut options = server_options(&issuer);
            options.answers_challenges = true;
            options.protocols = own.iter().map(|name| name.to_vec()).collect();
            let usual = options.certificates[0].clone();
            let server = ServerTls::new(options).unwrap();
            for (offered, is_challenge) in [
                (&[&b"acme-tls/1"[..]][..], true),
                (&[b"h2"], false),
                (&[b"h2", b"acme-tls/1"], false),
                (&[], false),
            ] {
                let client = asking(&issuer, offered);
                let (one, other) = connect(&server, &client, name).await;
                let (one, other) = (one.unwrap(), other.unwrap());
                let info = one.tls().unwrap();
                assert_eq!(info.is_challenge(), is_challenge, "{own:?} {offered:?}");
                let expected = if is_challenge { &proof } else { &usual };
                let presented = &other.tls().unwrap().peer.as_ref().unwrap().chain[0];
                assert_eq!(**presented, *expected.certificate(), "{own:?} {offered:?}");
            }
        }
        drop(challenge);
    });
}

#[test]
fn a_client_that_ends_or_sends_no_tls_before_its_hello_is_rejected() {
    block_on_local(async {
        let issuer = authority("ca");
        let options = ServerOptions { answers_challenges: true, ..server_options(&issuer) };
        let server = ServerTls::new(options).unwrap();
        for sent in [&b""[..], &[0x16, 3, 1, 0, 9, 1], &[0x16, 3, 1, 0, 4, 0xff, 0, 0, 0]] {
            let (one, other) = Stream::pair().unwrap();
            send(&other, sent).await;
            other.finish();
            let Err(AcceptError::Failed(_)) = one.accept_tls(&server).await else {
                panic!("accepted {sent:?}")
            };
        }
        let (one, other) = Stream::pair().unwrap();
        send(&other, &b"GET / HTTP/1.1\r\n\r\n"[..]).await;
        let Err(AcceptError::PlainText(_, received)) = one.accept_tls(&server).await else {
            panic!("not plain HTTP")
        };
        assert_eq!(received, "GET / HTTP/1.1\r\n\r\n");
    });
}
