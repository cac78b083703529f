//! What a client demands of a server's certificate.

use super::*;

#[test]
fn a_server_whose_certificate_does_not_fit_is_rejected() {
    block_on_local(async {
        let (issuer, other) = (authority("ca"), authority("other"));
        let server = ServerTls::new(server_options(&issuer)).unwrap();
        for (client, name) in [(client(&other), "a.test"), (client(&issuer), "b.test")] {
            let (one, failed) = connect(&server, &client, name).await;
            let failed = failed.unwrap_err();
            assert!(is_certificate_error(&failed) && is_tls_error(&failed), "{failed}");
            // The client's alert has reached the server.
            let Err(AcceptError::Failed(told)) = one else { panic!("{one:?}") };
            assert!(is_alert(&told) && !is_certificate_error(&told), "{told}");
        }
    });
}

#[test]
fn without_verification_every_certificate_is_accepted() {
    block_on_local(async {
        let (issuer, other) = (authority("ca"), authority("other"));
        let server = ServerTls::new(server_options(&issuer)).unwrap();
        for min_version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            let options = ClientOptions { verify: false, min_version, ..client_options(&other) };
            let client = ClientTls::new(options).unwrap();
            let (one, other) = connect(&server, &client, "b.test").await;
            let info = one.unwrap().tls().unwrap().clone();
            assert_eq!(info.server_name.as_deref(), Some("b.test"), "SNI is sent all the same");
            assert!(other.unwrap().tls().unwrap().peer.is_some());
        }
    });
}

#[test]
fn what_is_demanded_and_presented_is_the_identity() {
    let issuer = authority("ca");
    let options = client_options(&issuer);
    let one = client(&issuer);
    assert_eq!(one, client(&issuer));
    let certificate = Some(pair(&issuer, &["us.test"]));
    for other in [
        client_options(&authority("ca")),
        ClientOptions { verify: false, ..options.clone() },
        ClientOptions { certificate, ..options.clone() },
        ClientOptions { min_version: TlsVersion::Tls13, ..options.clone() },
        ClientOptions { protocols: vec![b"h2".to_vec()], ..options },
    ] {
        assert_ne!(one, ClientTls::new(other).unwrap());
    }
}

#[test]
fn the_alert_of_a_server_that_demands_a_certificate_is_kept() {
    block_on_local(async {
        let issuer = authority("ca");
        let authorities = issuer.pem().into_bytes();
        let client_auth = Some(ClientAuth { authorities, required: true });
        let min_version = TlsVersion::Tls13;
        let options = ServerOptions { client_auth, min_version, ..server_options(&issuer) };
        let server = ServerTls::new(options).unwrap();
        // Under TLS 1.3 the server decides after the client's handshake.
        let (refused, other) = connect(&server, &client(&issuer), "a.test").await;
        assert!(refused.is_err());
        let other = other.unwrap();
        for _ in 0..2 {
            let error = other.has_bytes().unwrap_err();
            assert!(is_alert(&error), "{error}");
        }
        let error = receive_all(&other).await.unwrap_err();
        assert!(is_alert(&error), "{error}");
    });
}

#[test]
fn a_client_without_a_common_protocol_gets_an_alert() {
    block_on_local(async {
        let issuer = authority("ca");
        let protocols = |name: &str| vec![name.as_bytes().to_vec()];
        for min_version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            let options = ServerOptions { protocols: protocols("h2"), ..server_options(&issuer) };
            let server = ServerTls::new(options).unwrap();
            let protocols = protocols("ftp");
            let options = ClientOptions { protocols, min_version, ..client_options(&issuer) };
            // The server hello precedes the alert.
            let (_, other) = connect(&server, &ClientTls::new(options).unwrap(), "a.test").await;
            let error = other.unwrap_err();
            assert!(is_alert(&error), "{error}");
        }
    });
}
