//! The vectors of RFC 9421, appendix B.

use bytes::Bytes;
use message::{Headers, Scheme, Target};
use wire::Method;

use super::*;
use crate::hmac_auth::message_signature::{MessageSignature, Rules, signatures};
use crate::token::{Algorithm, Key, key_set};

const NOW: u64 = 1_618_884_473;

/// B.1.2 to B.1.4.
const KEYS: &str = r#"{ "keys": [
    { "kid": "test-key-rsa-pss", "kty": "RSA", "alg": "PS512", "e": "AQAB" },
    { "kid": "test-key-ecc-p256", "kty": "EC", "crv": "P-256",
      "x": "qIVYZVLCrPZHGHjP17CTW0_-D9Lfw0EkjqF7xB4FivA",
      "y": "Mc4nN9LTDOBhfoUeg8Ye9WedFRhnZXZJA12Qp0zZ6F0" },
    { "kid": "test-key-ed25519", "kty": "OKP", "crv": "Ed25519",
      "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs" } ] }"#;
/// The modulus of `test-key-rsa-pss`.
const MODULUS: &str = "\
    r4tmm3r20Wd_PbqvP1s2-QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct-Lh1GH45x28Rw3Ry53mm-oA\
    XjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHqgDsznjPFmTOtCEcN2Z1FpWgc\
    hwuYLPL-Wokqltd11nqqzi-bJ9cvSKADYdUAAN5WUtzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA\
    485mqcO0GVAdVw9lq4aOT9v6d-nb4bnNkQVklLQ3fVAvJm-xdDOp9LCNCN48V2pnDOkFV6-U9nV5oyc6XI2w";
/// B.1.5.
const SHARED: &str =
    "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==";

/// B.3: the proxy's report of the client certificate.
const CERTIFICATE: &str = ":MIIBqDCCAU6gAwIBAgIBBzAKBggqhkjOPQQDAjA6MRswGQYDVQQKDBJMZXQncyBBdXRo\
    ZW50aWNhdGUxGzAZBgNVBAMMEkxBIEludGVybWVkaWF0ZSBDQTAeFw0yMDAxMTQyMjU1MzNaFw0yMTAxMjMyMjU1MzNaM\
    A0xCzAJBgNVBAMMAkJDMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8YnXXfaUgmnMtOXU/IncWalRhebrXmckC8vdgJ\
    1p5Be5F/3YC8OthxM4+k1M6aEAEFcGzkJiNy6J84y7uzo9M6NyMHAwCQYDVR0TBAIwADAfBgNVHSMEGDAWgBRm3WjLa38\
    lbEYCuiCPct0ZaSED2DAOBgNVHQ8BAf8EBAMCBsAwEwYDVR0lBAwwCgYIKwYBBQUHAwIwHQYDVR0RAQH/BBMwEYEPYmRj\
    QGV4YW1wbGUuY29tMAoGCCqGSM49BAMCA0gAMEUCIBHda/r1vaL6G3VliL4/Di6YK0Q6bMjeSkC3dFCOOB8TAiEAx/kHS\
    B4urmiZ0NX5r5XarmPk0wmuydBVoU4hBVZ1yhk=:";

/// True if the key of a name has made a signature of this text.
fn verifies(key_id: &str, base: &[u8], signature: &[u8]) -> bool {
    if key_id == "test-shared-secret" {
        let secret = STANDARD.decode(SHARED).unwrap();
        return Key::secret(None, Algorithm::Hs256, &secret).unwrap().verify(base, signature);
    }
    let mut text: serde_json::Value = serde_json::from_str(KEYS).unwrap();
    text["keys"][0]["n"] = MODULUS.into();
    let keys = text["keys"].as_array().unwrap().iter();
    let key = keys.filter(|key| key["kid"] == key_id).collect::<Vec<_>>();
    let set = serde_json::json!({ "keys": key }).to_string();
    key_set(set.as_bytes()).unwrap()[0].verify(base, signature)
}

fn rules() -> Rules {
    let (max_age_s, leeway_s) = (60, 0);
    Rules { components: Vec::new(), max_age_s, leeway_s, tag: None, needs_nonce: false }
}

fn request(method: Method, target: &'static str, fields: &[(&str, &str)]) -> Request {
    let mut headers = Headers::new();
    fields.iter().for_each(|(name, value)| headers.append(*name, *value));
    let target = Target::new(Bytes::from_static(target.as_bytes())).unwrap();
    let mut request = Request::made_up(method, target, headers);
    request.scheme = Scheme::Https;
    request
}

/// The only signature of a request.
fn only_signature(request: &Request) -> Result<MessageSignature, &'static str> {
    signatures(request, &rules(), NOW).map(|mut found| found.pop().unwrap())
}

/// The request of B.2, with a signature.
fn test_request(input: &str, signature: &str) -> Request {
    request(
        Method::Post,
        "/foo?param=Value&Pet=dog",
        &[
            ("host", "example.com"),
            ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
            ("content-type", "application/json"),
            (
                "content-digest",
                "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVL\
                 vRwEmTHWXvJwew==:",
            ),
            ("content-length", "18"),
            ("signature-input", &format!("s={input}")),
            ("signature", &format!("s=:{signature}:")),
        ],
    )
}

/// B.2.1, B.2.2, B.2.3, B.2.5 and B.2.6.
const REQUESTS: [(&str, &str); 5] = [
    (
        r#"();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd""#,
        "d2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it++wgGxbt\
         Rxf8Udx7zFZsckzXaJMkA7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR72rgFW\
         hzx2VjBqJzsPLMIQKhO4DGezXehhWwE56YCE+O6c0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/QEV\
         PnP5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8K3+7EPYTU8IU1bLhdxO5Nyt8C8ssinQ98Xw9Q==",
    ),
    (
        "(\"@authority\" \"content-digest\" \"@query-param\";name=\"Pet\");created=1618884473;ke\
         yid=\"test-key-rsa-pss\";tag=\"header-example\"",
        "LjbtqUbfmvjj5C5kr1Ugj4PmLYvx9wVjZvD9GsTT4F7GrcQEdJzgI9qHxICagShLRiLMlAJjtq6N4CDfKtjvuJy\
         E5qH7KT8UCMkSowOB4+ECxCmT8rtAmj/0PIXxi0A0nxKyB09RNrCQibbUjsLS/2YyFYXEu4TRJQzRw1rLEuEfY1\
         7SARYhpTlaqwZVtR8NV7+4UKkjqpcAoFqWFQh62s7Cl+H2fjBSpqfZUJcsIk4N6wiKYd4je2U/lankenQ99PZfB\
         4jY3I5rSV2DSBVkSFsURIjYErOs0tFTQosMTAoxk//0RoKUqiYY8Bh0aaUEb0rQl3/XaVe4bXTugEjHSw==",
    ),
    (
        "(\"date\" \"@method\" \"@path\" \"@query\" \"@authority\" \"content-type\" \"content-di\
         gest\" \"content-length\");created=1618884473;keyid=\"test-key-rsa-pss\"",
        "bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeGt683+qR\
         pRRU5p2voTp768ZrCUb38K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLNmvKiL\
         JH1pFkh/aYA2HXXZzNBXmIkoQoLd7YfW91kE9o/CCoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Eim5f\
         8ui9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl5ZJzSRxpJyoEZAFL2FUo5fTIztsDZKEgM4cUA==",
    ),
    (
        r#"("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret""#,
        "pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=",
    ),
    (
        "(\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" \"content-length\");cre\
         ated=1618884473;keyid=\"test-key-ed25519\"",
        "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==",
    ),
];

#[test]
fn rfc_9421_appendix_b_2_requests() {
    for (input, value) in REQUESTS {
        let found = only_signature(&test_request(input, value)).unwrap();
        assert!(verifies(&found.key_id, &found.base, &found.signature), "{input}");
        assert_eq!(found.expires_s, NOW + 60);
        // Each covered component is protected.
        for name in ["date", "content-type", "content-digest", "content-length", "host"] {
            let mut altered = test_request(input, value);
            altered.headers.set(name, "other");
            let found = only_signature(&altered).unwrap();
            let covered = if name == "host" { "@authority" } else { name };
            let is_covered = input.contains(&format!("\"{covered}\""));
            let is_valid = verifies(&found.key_id, &found.base, &found.signature);
            assert_eq!(is_valid, !is_covered, "{name}: {input}");
        }
    }
}

#[test]
fn rfc_9421_appendix_b_2_4_response() {
    let base = "\"@status\": 200\n\"content-type\": application/json\n\"content-digest\": \
        sha-512=:mEWXIS7MaLRuGgxOBdODa3xqM1XdEvxoYhvlCFJ41QJgJc4GTsPp29l5oGX69wWdXymyU0rjJuahq4l\
         5aGgfLQ==:\n\
        \"content-length\": 23\n\"@signature-params\": (\"@status\" \"content-type\" \
        \"content-digest\" \"content-length\");created=1618884473;keyid=\"test-key-ecc-p256\"";
    let value =
        "wNmSUAhwb5LxtOtOpNa6W5xj067m5hFrj0XQ4fvpaCLx0NKocgPquLgyahnzDnDAUy5eCdlYUEkLIj+32oiasw==";
    let value = STANDARD.decode(value).unwrap();
    assert!(verifies("test-key-ecc-p256", base.as_bytes(), &value));
    assert!(!verifies("test-key-ecc-p256", &base.as_bytes()[1..], &value));
}

#[test]
fn rfc_9421_appendix_b_3_proxy() {
    let request = request(
        Method::Post,
        "/foo?param=Value&Pet=dog",
        &[
            ("host", "service.internal.example"),
            ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
            ("client-cert", CERTIFICATE),
            (
                "signature-input",
                "ttrp=(\"@path\" \"@query\" \"@method\" \"@authority\" \"client-cert\");created=\
                 1618884473;keyid=\"test-key-ecc-p256\"",
            ),
            (
                "signature",
                "ttrp=:xVMHVpawaAC/0SbHrKRs9i8I3eOs5RtTMGCWXm/9nvZzoHsIg6Mce9315T6xoklyy0yzhD9ah\
                 4JH\
                 RwMLOgmizw==:",
            ),
        ],
    );
    let found = only_signature(&request).unwrap();
    assert!(verifies(&found.key_id, &found.base, &found.signature));
}

#[test]
fn rfc_9421_appendix_b_4_transformations() {
    let input = "transform=(\"@method\" \"@path\" \"@authority\" \"accept\");created=1618884473;\
        keyid=\"test-key-ed25519\"";
    let signature = "transform=:ZT1kooQsEHpZ0I1IjCqtQppOmIqlJPeo7DHR3SoMn0s5JZ1eRGS0A+vyYP9t/LXlh\
        5QMFFQ6cpLt2m0pmj3NDA==:";
    let is_valid = |method, target, fields: &[(&str, &str)]| {
        let signed = [fields, &[("signature-input", input), ("signature", signature)]].concat();
        let found = only_signature(&request(method, target, &signed)).unwrap();
        verifies(&found.key_id, &found.base, &found.signature)
    };
    let (host, json, any) =
        (("host", "example.org"), ("accept", "application/json"), ("accept", "*/*"));
    let joined = ("accept", "application/json, */*");
    let target = "/demo?name1=Value1&Name2=value2";
    assert!(is_valid(Method::Get, target, &[host, json, any]));
    let added = [host, json, any, ("accept-language", "en-US,en;q=0.5")];
    assert!(is_valid(Method::Get, "/demo?name1=Value1&Name2=value2&param=added", &added));
    let referer = ("referer", "https://developer.example.org/demo");
    assert!(is_valid(Method::Get, target, &[host, referer, joined]));
    assert!(is_valid(Method::Get, target, &[json, any, host]));
    assert!(!is_valid(Method::Post, target, &[("host", "example.com"), json, any]));
    assert!(!is_valid(Method::Get, target, &[host, any, json]));
}

/// The examples of 2.1 and 2.2 for components with parameters.
#[test]
fn rfc_9421_section_2_components() {
    let request = request(
        Method::Get,
        "/path?param=value&foo=bar&baz=batman&qux=&param=twice&%66a%C3%A7ade%22%3A%20=something",
        &[
            ("host", "WWW.example.com:443"),
            ("example-dict", "a=1,    b=2;x=1;y=2,   c=(a   b   c)"),
            ("example-list", "a ,  b"),
            ("example-header", "value, with, lots"),
            ("example-header", "of, commas"),
            ("x-empty", ""),
        ],
    );
    let value = |component: &str| {
        let mut signed = super::get("/", &[]);
        signed.target = request.target.clone();
        signed.headers = request.headers.clone();
        signed.scheme = request.scheme;
        let input = format!("s=({component});created={NOW};keyid=\"k\"");
        signed.headers.append("signature-input", input);
        signed.headers.append("signature", "s=:AA==:");
        let found = only_signature(&signed)?;
        let base = String::from_utf8(found.base).unwrap();
        let line = base.lines().next().unwrap().strip_prefix(component).unwrap();
        Ok::<_, &str>(line[2..].to_owned())
    };
    for (component, expected) in [
        ("\"@authority\"", "www.example.com"),
        ("\"@scheme\"", "https"),
        ("\"@path\"", "/path"),
        ("\"@query-param\";name=\"baz\"", "batman"),
        ("\"@query-param\";name=\"qux\"", ""),
        ("\"@query-param\";name=\"fa%C3%A7ade%22%3A%20\"", "something"),
        ("\"example-dict\";sf", "a=1, b=2;x=1;y=2, c=(a b c)"),
        ("\"example-list\";sf", "a, b"),
        ("\"example-dict\";key=\"a\"", "1"),
        ("\"example-dict\";key=\"b\"", "2;x=1;y=2"),
        ("\"example-dict\";key=\"c\"", "(a b c)"),
        ("\"example-header\"", "value, with, lots, of, commas"),
        ("\"example-header\";bs", ":dmFsdWUsIHdpdGgsIGxvdHM=:, :b2YsIGNvbW1hcw==:"),
        ("\"x-empty\"", ""),
    ] {
        assert_eq!(value(component).as_deref(), Ok(expected), "{component}");
    }
    for component in [
        "\"@query-param\";name=\"param\"",
        "\"@query-param\";name=\"none\"",
        "\"@query-param\"",
        "\"@path\";req",
        "\"example-dict\";key=\"d\"",
        "\"example-dict\";tr",
        "\"example-list\";bs;sf",
        "\"@status\"",
        "\"x-none\"",
        "\"Example-List\"",
        "token",
    ] {
        assert!(value(component).is_err(), "{component}");
    }
}
