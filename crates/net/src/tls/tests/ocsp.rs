//! OCSP responses, written here in DER: which are sent with a certificate.

use aws_lc_rs::digest::{SHA256, digest};
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Encode};

use super::{NOW, authority, issue, load, params};
use crate::tls::CertificateKey;

/// A value of DER with a short tag.
fn der(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    match length {
        [0, short @ ..=0x7f] => [&[tag, short], &*content].concat(),
        [0, one] => [&[tag, 0x81, one], &*content].concat(),
        two => [&[tag, 0x82][..], &two, &content].concat(),
    }
}

/// An OCSP response for a serial number with this status.
fn ocsp_response(issuer_name: &[u8], serial: &[u8], status: &[u8], next: Option<&str>) -> Vec<u8> {
    let time = |text: &str| der(0x18, &[text.as_bytes()]);
    let sha256 = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
    let algorithm = der(0x30, &[&sha256.to_der().unwrap()]);
    let hash = digest(&SHA256, issuer_name);
    let id = [&algorithm[..], &der(4, &[hash.as_ref()]), &der(4, &[b"key"]), &der(2, &[serial])];
    let next = next.map_or(Vec::new(), |next| der(0xa0, &[&time(next)]));
    let single = der(0x30, &[&der(0x30, &id), status, &time("20270101000000Z"), &next]);
    let responder = der(0xa1, &[&der(0x30, &[])]);
    let data = der(0x30, &[&responder, &time("20270101000000Z"), &der(0x30, &[&single])]);
    let basic = der(0x30, &[&data, &der(0x30, &[]), &der(3, &[&[0, 1]])]);
    let kind = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1.1");
    let bytes = der(0x30, &[&kind.to_der().unwrap(), &der(4, &[&basic])]);
    der(0x30, &[&[0x0a, 1, 0], &der(0xa0, &[&bytes])])
}

#[test]
fn an_ocsp_response_is_sent_while_it_fits() {
    let issuer = authority("ca");
    let mut params = params(&["a.test"]);
    params.serial_number = Some(vec![0x80, 1].into());
    let (chain, key) = issue(&issuer, params);
    let issuer_name = Certificate::from_der(issuer.der()).unwrap();
    let issuer_name = issuer_name.tbs_certificate().subject().to_der().unwrap();
    let (good, revoked) = (&[0x80, 0][..], der(0xa1, &[b"\x18\x0f20270101000000Z"]));
    let (serial, later) = (&[0, 0x80, 1][..], Some("20270120000000Z"));
    for (issuer_name, serial, status, next, stapling) in [
        (&*issuer_name, serial, good, later, Ok(())),
        (&issuer_name, serial, good, None, Ok(())),
        (&issuer_name, serial, good, Some("20270110000000Z"), Err("it has expired")),
        (&issuer_name, &[1], good, later, Err("it is the response of another certificate")),
        (b"other", serial, good, later, Err("it is the response of another certificate")),
        (&issuer_name, serial, &revoked, later, Err("it does not report the certificate as good")),
    ] {
        let ocsp = ocsp_response(issuer_name, serial, status, next);
        let load = |ocsp| CertificateKey::load(chain.as_bytes(), key.as_bytes(), ocsp, NOW);
        let pair = load(Some(ocsp.clone())).unwrap();
        assert_eq!(pair.stapling(NOW), Some(stapling));
        assert_ne!(pair, load(None).unwrap(), "a reload notices the response");
        let early = pair.stapling(NOW - 100 * 24 * 3600);
        assert!(stapling.is_err() || early == Some(Err("it is not valid yet")), "{early:?}");
        for end in 5..ocsp.len() {
            assert!(load(Some(ocsp[..end].to_vec())).is_err(), "cut off at {end}");
        }
    }
    assert_eq!(load(&(chain, key)).unwrap().stapling(NOW), None);
}
