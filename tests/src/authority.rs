//! Certificates for tests, made when the test runs.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// A certificate authority of one test.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with the authority that issued it, and its key, in PEM.
#[derive(Clone)]
pub struct Issued {
    pub chain: String,
    pub key: String,
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).expect("valid names")
}

impl Authority {
    pub fn new() -> Authority {
        let mut params = params(&[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Python from 3.13 on verifies strictly (RFC 5280 4.2.1.1 and 4.2.1.3).
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        Authority { issuer }
    }

    /// The certificate of the authority in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A server's certificate for these names.
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.sign(params(names))
    }

    /// A server's certificate that is valid from the one year to the other.
    pub fn issue_between(&self, names: &[&str], from: i32, to: i32) -> Issued {
        let mut params = params(names);
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        self.sign(params)
    }

    /// A server's certificate that expires in so many hours.
    pub fn issue_for_hours(&self, names: &[&str], hours: u64) -> Issued {
        let mut params = params(names);
        params.not_after = (SystemTime::now() + Duration::from_secs(hours * 60 * 60)).into();
        self.sign(params)
    }

    /// A client's certificate with this common name.
    pub fn issue_client(&self, name: &str) -> Issued {
        let mut params = params(&[&format!("{name}.clients.test")]);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Issued {
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Issued { chain: certificate.pem() + &self.issuer.pem(), key: key.serialize_pem() }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Authority::new()
    }
}
