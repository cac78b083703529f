//! The vectors of the RFCs on tokens: 6750, 7515, 7516, 7517, 7519 and 8037.
//!
//! Those of RFC 7518 are about encryption alone. The vectors of RFC 7515 A.6 and A.7 have the JSON
//! serialization, which HTTP does not carry.

use super::*;
use crate::token::{Key, Rules, TokenVerifier, VerifiedToken, key_set, provided_key_set, verify};

/// When the tokens are valid that RFC 7515 and RFC 7519 share.
const NOW: u64 = 1_300_819_379;
/// RFC 7515 A.1 to A.3: the claims of RFC 7519 3.1.
const CLAIMS: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc\
    19yb290Ijp0cnVlfQ";
/// RFC 7515 A.1.
const MAC_KEY: &str =
    "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
const MAC_TOKEN: [&str; 2] =
    ["eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"];
/// RFC 7515 A.5 and RFC 7519 6.1, behind whose last dot is nothing.
const UNSECURED: &str = "eyJhbGciOiJub25lIn0";

fn set(keys: Json) -> Vec<Key> {
    key_set(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

fn token([header, signature]: [&str; 2]) -> String {
    format!("{header}.{CLAIMS}.{signature}")
}

fn verified(keys: &[Key], parts: [&str; 2]) -> Result<VerifiedToken, &'static str> {
    verify(token(parts).as_bytes(), keys, &Rules::default(), NOW)
}

fn has_the_claims(verified: VerifiedToken) {
    let VerifiedToken { claims, expires_s, .. } = verified;
    let pairs: Vec<(&str, &str)> = claims.iter().map(|(n, v)| (&**n, &**v)).collect();
    let root = ("http://example.com/is_root", "true");
    assert_eq!(pairs, [("iss", "joe"), ("exp", "1300819380"), root]);
    assert_eq!(expires_s, NOW + 1);
}

#[test]
fn rfc_7515_appendix_a_1_hmac_and_rfc_7519_section_3_1() {
    let keys = set(json!([{ "kty": "oct", "k": MAC_KEY }]));
    has_the_claims(verified(&keys, MAC_TOKEN).unwrap());
    let late = verify(token(MAC_TOKEN).as_bytes(), &keys, &Rules::default(), NOW + 1);
    assert_eq!(late.map(drop), Err("the token has expired"));
}

#[test]
fn rfc_7515_appendix_a_2_rsa() {
    let keys = set(json!([{ "kty": "RSA", "e": "AQAB",
        "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP\
            1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bS\
            f63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3q\
            Co5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9g\
            b54h4FRWyuXpoQ" }]));
    let parts = [
        "eyJhbGciOiJSUzI1NiJ9",
        "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2F\
            p5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIAR\
            NPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7no\
            OPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGl\
            UPQGe77Rw",
    ];
    has_the_claims(verified(&keys, parts).unwrap());
}

#[test]
fn rfc_7515_appendix_a_3_ecdsa_p_256() {
    let keys = set(json!([{ "kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" }]));
    let parts = [
        "eyJhbGciOiJFUzI1NiJ9",
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
    ];
    has_the_claims(verified(&keys, parts).unwrap());
}

#[test]
fn rfc_7515_appendix_a_4_ecdsa_p_521() {
    let keys = set(json!([{ "kty": "EC", "crv": "P-521",
        "x": "AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLFV1jSfS9tsz4qUxcWceqw\
            QGk",
        "y": "ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kkd0AZMaZmh9ubmf63e3ky\
            Mj2",
    }]));
    let token = "eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA.AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaR\
        I1bKPWROc-mZZqwqT2SI-KGDKB34XO0aw_7XdtAG8GaSwFKdCAPZgoXD2YBJZCPEX3xKpRwcdOO8KpEHwJjyq\
        OgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_Jn";
    assert_eq!(
        TokenVerifier::default().verify_signature(token.as_bytes(), &keys).unwrap(),
        b"Payload"
    );
}

#[test]
fn rfc_7515_appendix_a_5_unsecured_and_rfc_7519_section_6_1() {
    let keys = set(json!([{ "kty": "oct", "k": MAC_KEY }]));
    assert!(verified(&keys, [UNSECURED, ""]).is_err());
}

#[test]
fn rfc_7515_appendix_e_critical_header() {
    let keys = set(json!([{ "kty": "oct", "k": MAC_KEY }]));
    let token = "eyJhbGciOiJub25lIiwNCiAiY3JpdCI6WyJodHRwOi8vZXhhbXBsZS5jb20vVU5ERUZJTkVEIl0sDQogIm\
        h0dHA6Ly9leGFtcGxlLmNvbS9VTkRFRklORUQiOnRydWUNCn0.RkFJTA.";
    assert!(TokenVerifier::default().verify_signature(token.as_bytes(), &keys).is_err());
}

/// A nested or encrypted token has five parts.
#[test]
fn rfc_7519_appendix_a_1_encrypted() {
    let keys = set(json!([{ "kty": "oct", "k": MAC_KEY }]));
    let token = "eyJhbGciOiJSU0ExXzUiLCJlbmMiOiJBMTI4Q0JDLUhTMjU2In0.QR1Owv2ug2WyPBnbQrRARTeEk9kDO2\
        w8qDcjiHnSJflSdv1iNqhWXaKH4MqAkQtM.AxY8DCtDaGlsbGljb3RoZQ.MKOle7UQrG6nSxTLX6Mqwt0orbH\
        vAKeWnDYvpIAeZ72deHxz3roJDXQyhxx0wKaMHDjUEOKIwrtkHthpqEanSBNYHZgmNOV7sln1Eu9g3J8.fiK5\
        1VwhsxJ-siBMR-YFiA";
    assert!(verify(token.as_bytes(), &keys, &Rules::default(), NOW).is_err());
}

#[test]
fn rfc_7517_appendix_a_1_public_keys() {
    let set = json!({ "keys": [
        { "kty": "EC", "crv": "P-256", "use": "enc", "kid": "1",
          "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
          "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM" },
        { "kty": "RSA", "e": "AQAB", "alg": "RS256", "kid": "2011-04-29",
          "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6t\
              Soc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4Qy\
              Q5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOp\
              bISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csF\
              Cur-kEgU8awapJzKnqDKgw" },
    ] });
    // The first is for encryption.
    assert_eq!(provided_key_set(set.to_string().as_bytes()).unwrap().len(), 1);
}

#[test]
fn rfc_7517_appendix_a_3_symmetric_keys() {
    let set = json!({ "keys": [
        { "kty": "oct", "alg": "A128KW", "k": "GawgguFyGrWKav7AX4VKUg" },
        { "kty": "oct", "kid": "HMAC key used in JWS spec Appendix A.1 example", "k": MAC_KEY },
    ] });
    let keys = key_set(set.to_string().as_bytes()).unwrap();
    assert_eq!(keys.len(), 1);
    has_the_claims(verified(&keys, MAC_TOKEN).unwrap());
    // A secret that a provider publishes is none.
    assert!(provided_key_set(set.to_string().as_bytes()).is_err());
}

const ED25519_KEY: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

#[test]
fn rfc_8037_appendices_a_2_to_a_5_ed25519() {
    let keys = set(json!([{ "kty": "OKP", "crv": "Ed25519", "x": ED25519_KEY }]));
    let token = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPO\
        t7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    let text = TokenVerifier::default().verify_signature(token.as_bytes(), &keys).unwrap();
    assert_eq!(text, b"Example of Ed25519 signing");
    // The payload is not an object.
    assert!(verify(token.as_bytes(), &keys, &Rules::default(), NOW).is_err());
}

/// Keys for key agreement verify nothing.
#[test]
fn rfc_8037_appendices_a_6_and_a_7_key_agreement() {
    for (curve, x) in [
        ("X25519", "3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08"),
        ("X448", "PreoKbDNIPW8_AtZm2_sz22kYnEHvbDU80W0MCfYuXL8PjT7QjKhPKcG3LV67D2uB73BxnvzNgk"),
    ] {
        let set = json!({ "keys": [{ "kty": "OKP", "crv": curve, "kid": "Bob", "x": x }] });
        assert!(key_set(set.to_string().as_bytes()).is_err(), "{curve}");
    }
}

#[test]
fn rfc_6750_section_3_challenges() {
    let settings = with_secret(&[("realm", node!("example"))]);
    let filter = filter(&KIND, &settings);
    let challenge = |fields: &[(&str, &str)]| {
        let fault = passed(filter.on_request(&mut get("/", fields))).unwrap_err();
        let response = rendered(&fault);
        assert_eq!(response.status, 401);
        response.headers.get_str(Known::WwwAuthenticate).unwrap().to_owned()
    };
    assert_eq!(challenge(&[]), "Bearer realm=\"example\"");
    // Section 2.1; the token of the example is none of ours.
    let invalid = challenge(&[("authorization", "Bearer mF_9.B5f-4.1JqM")]);
    assert!(invalid.starts_with("Bearer realm=\"example\", error=\"invalid_token\""), "{invalid}");
    // Sections 2.2 and 2.3: a token in the query is not looked for.
    let mut request = get("/resource?access_token=mF_9.B5f-4.1JqM", &[]);
    let fault = passed(filter.on_request(&mut request)).unwrap_err();
    let response = rendered(&fault);
    let challenge = response.headers.get_str(Known::WwwAuthenticate);
    assert_eq!(challenge, Some("Bearer realm=\"example\""));
}
