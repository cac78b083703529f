//! Tokens of every algorithm, and forged ones.

use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING, Ed25519KeyPair,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding,
};

use super::*;
use crate::token::key_set;
use crate::token::{Rules, TOKEN_BYTES_MAX, TokenVerifier, verify};

const NOW: u64 = 1_700_000_000;

fn payload() -> String {
    json!({ "sub": "a-17", "iss": "us", "aud": ["shop"], "exp": NOW + 60 }).to_string()
}

fn rules() -> Rules {
    Rules {
        issuers: vec!["us".into()],
        audiences: vec!["shop".into()],
        leeway_s: 0,
        allow_without_expiry: false,
        allow_any_audience: false,
    }
}

/// A set with the secret, and what else is given.
fn secret_set(other: &Json) -> String {
    let mut key = json!({ "kty": "oct", "alg": "HS256", "k": encode(SECRET) });
    for (name, value) in other.as_object().unwrap() {
        key[name] = value.clone();
    }
    json!({ "keys": [key] }).to_string()
}

fn check(set: &str, token: &str) -> Result<(), &'static str> {
    let (keys, verifier) = (key_set(set.as_bytes()).unwrap(), TokenVerifier::default());
    let verify = || verifier.verify(token.as_bytes(), &keys, &rules(), NOW).map(drop);
    let result = verify();
    assert_eq!(verify(), result, "with the remembered header");
    result
}

#[test]
fn a_remembered_header_decides_nothing_about_a_token_with_another_one() {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    let mac = |data: &[u8]| hmac::sign(&key, data).as_ref().to_vec();
    let keys = key_set(secret_set(&json!({ "kid": "one" })).as_bytes()).unwrap();
    let verifier = TokenVerifier::default();
    let is_valid = |header: &str| {
        let token = signed(header, &payload(), mac);
        verifier.verify(token.as_bytes(), &keys, &rules(), NOW).is_ok()
    };
    for (header, expected) in [
        (r#"{"alg":"HS256","kid":"one"}"#, true),
        (r#"{"alg":"none","kid":"one"}"#, false),
        (r#"{"alg":"HS256","kid":"one"}"#, true),
        (r#"{"alg":"HS256","kid":"two"}"#, false),
        (r#"{"alg":"HS256"}"#, true),
        (r#"{"alg":"HS512","kid":"one"}"#, false),
        (r#"{"alg":"HS256","kid":"one","crit":["exp"]}"#, false),
        (r#"{"alg":"HS256","kid":"one"}"#, true),
    ] {
        assert_eq!(is_valid(header), expected, "{header}");
    }
}

#[test]
fn every_algorithm_verifies_its_own_signatures_and_no_other() {
    let random = SystemRandom::new();
    let mut made: Vec<(String, String)> = Vec::new();
    for (name, algorithm) in
        [("HS256", hmac::HMAC_SHA256), ("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)]
    {
        let sign =
            |data: &[u8]| hmac::sign(&hmac::Key::new(algorithm, SECRET), data).as_ref().to_vec();
        let header = json!({ "alg": name }).to_string();
        let set = secret_set(&json!({ "alg": name }));
        made.push((set, signed(&header, &payload(), sign)));
    }
    for (name, curve, algorithm) in [
        ("ES256", "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING),
        ("ES384", "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING),
        ("ES512", "P-521", &ECDSA_P521_SHA512_FIXED_SIGNING),
    ] {
        let pair = EcdsaKeyPair::generate(algorithm).unwrap();
        let (x, y) = point(pair.public_key().as_ref());
        let set = json!({ "keys": [{ "kty": "EC", "crv": curve, "x": x, "y": y }] }).to_string();
        let sign = |data: &[u8]| pair.sign(&random, data).unwrap().as_ref().to_vec();
        made.push((set, signed(&json!({ "alg": name }).to_string(), &payload(), sign)));
    }
    let pair = Ed25519KeyPair::generate().unwrap();
    let x = encode(pair.public_key().as_ref());
    let set = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "x": x }] }).to_string();
    let sign = |data: &[u8]| pair.sign(data).as_ref().to_vec();
    made.push((set, signed(r#"{"alg":"EdDSA"}"#, &payload(), sign)));
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    // RSAPublicKey: a sequence, 256 bytes of modulus behind a zero, and the exponent 65537.
    let (n, e) = (encode(&pair.public_key().as_ref()[9..265]), "AQAB");
    let ways: [(&str, &'static dyn RsaEncoding); 6] = [
        ("RS256", &RSA_PKCS1_SHA256),
        ("RS384", &RSA_PKCS1_SHA384),
        ("RS512", &RSA_PKCS1_SHA512),
        ("PS256", &RSA_PSS_SHA256),
        ("PS384", &RSA_PSS_SHA384),
        ("PS512", &RSA_PSS_SHA512),
    ];
    for (name, way) in ways {
        let set = json!({ "keys": [{ "kty": "RSA", "alg": name, "n": n, "e": e }] }).to_string();
        let sign = |data: &[u8]| {
            let mut signature = vec![0; pair.public_modulus_len()];
            pair.sign(way, &random, data, &mut signature).unwrap();
            signature
        };
        made.push((set, signed(&json!({ "alg": name }).to_string(), &payload(), sign)));
    }
    assert_eq!(made.len(), 13);
    for (at, (set, _)) in made.iter().enumerate() {
        for (other, (_, token)) in made.iter().enumerate() {
            assert_eq!(check(set, token).is_ok(), at == other, "set {at}, token {other}");
        }
    }
    key_confusion(&made, &n);
}

/// Tokens that are signed with what is public, in the hope that a key is taken for a secret.
fn key_confusion(made: &[(String, String)], modulus: &str) {
    for (set, _) in &made[3..] {
        for public in [set.clone(), modulus.to_owned()] {
            let bytes = URL_SAFE_NO_PAD.decode(&public).unwrap_or(public.into_bytes());
            for (name, algorithm) in [("HS256", hmac::HMAC_SHA256), ("HS512", hmac::HMAC_SHA512)] {
                let sign = |data: &[u8]| {
                    hmac::sign(&hmac::Key::new(algorithm, &bytes), data).as_ref().to_vec()
                };
                let token = signed(&json!({ "alg": name }).to_string(), &payload(), sign);
                assert_eq!(check(set, &token), Err("no key fits the token"));
            }
        }
    }
}

#[test]
fn forged_and_odd_headers() {
    let set = secret_set(&json!({ "kid": "one" }));
    let good = signed(HS256, &payload(), mac);
    assert_eq!(check(&set, &good), Ok(()));
    assert_eq!(check(&set, &signed(r#"{"alg":"HS256","kid":"one"}"#, &payload(), mac)), Ok(()));
    for header in [
        r#"{"alg":"none"}"#,
        r#"{"alg":"None"}"#,
        r#"{"alg":"nOnE"}"#,
        r#"{"alg":"NONE"}"#,
        r#"{"alg":""}"#,
        r#"{"alg":null}"#,
        r#"{"alg":256}"#,
        r#"{"alg":["HS256"]}"#,
        r#"{"alg":"hs256"}"#,
        r#"{"alg":"HS256 "}"#,
        r#"{"alg":"HS384"}"#,
        r#"{"alg":"HS512"}"#,
        r#"{"alg":"RS256"}"#,
        r#"{"alg":"ES256"}"#,
        r#"{"alg":"EdDSA"}"#,
        r#"{"alg":"dir"}"#,
        r#"{}"#,
        r#"{"ALG":"HS256"}"#,
        r#"{"alg":"HS256","alg":"HS256"}"#,
        r#"{"alg":"none","alg":"HS256"}"#,
        r#"{"alg":"HS256","\u0061lg":"none"}"#,
        r#"{"alg":"HS256","crit":["exp"]}"#,
        r#"{"alg":"HS256","crit":[]}"#,
        r#"{"alg":"HS256","crit":["b64"],"b64":false}"#,
        r#"{"alg":"HS256","b64":false}"#,
        r#"{"alg":"HS256","zip":"DEF"}"#,
        r#"{"alg":"HS256","kid":"two"}"#,
        r#"{"alg":"HS256","kid":""}"#,
        r#"{"alg":"HS256","kid":1}"#,
        r#"{"alg":"HS256","kid":["one"]}"#,
        r#"{"alg":"HS256","kid":"../../dev/null"}"#,
        r#"["HS256"]"#,
        r#""HS256""#,
        "{\"alg\":\"HS256\"",
        "{\"alg\":\"HS256\"}x",
        "",
    ] {
        assert!(check(&set, &signed(header, &payload(), mac)).is_err(), "{header}");
    }
    // A key in the header is not used.
    let other = |data: &[u8]| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]), data).as_ref().to_vec()
    };
    for member in ["jwk", "jku", "x5u", "x5c"] {
        let jwk = json!({ "kty": "oct", "k": encode([7; 32]) });
        let header = json!({ "alg": "HS256", member: jwk }).to_string();
        let result = check(&set, &signed(&header, &payload(), other));
        assert_eq!(result, Err("the signature of the token is wrong"), "{member}");
    }
}

#[test]
fn forged_and_odd_forms() {
    let set = secret_set(&json!({}));
    let good = signed(HS256, &payload(), mac);
    let parts: Vec<&str> = good.split('.').collect();
    let (header, body, signature) = (parts[0], parts[1], parts[2]);
    let altered = encode(payload().replace("a-17", "a-18"));
    let flipped = {
        let mut bytes = URL_SAFE_NO_PAD.decode(signature).unwrap();
        bytes[0] ^= 1;
        encode(bytes)
    };
    for token in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        format!("{header}.{body}"),
        format!("{header}.{body}."),
        format!(".{body}.{signature}"),
        format!("{header}..{signature}"),
        format!("{good}."),
        format!("{good}.{signature}"),
        format!(".{good}"),
        format!("{good}="),
        format!("{header}=.{body}.{signature}"),
        format!("{header}.{body}==.{signature}"),
        format!("{good} "),
        format!(" {good}"),
        format!("{good}\n"),
        format!("{header}.{body}\n.{signature}"),
        good.replace('.', ","),
        format!("{header}.{altered}.{signature}"),
        format!("{header}.{body}.{flipped}"),
        format!("{header}.{body}.{}", &signature[..signature.len() - 2]),
        format!("{header}.{body}.{}", signature.to_uppercase()),
        format!("{header}.{body}.+{}", &signature[1..]),
        format!("{header}.{body}./{}", &signature[1..]),
        format!("{header}.{body}.{}", encode([0; 32])),
        format!("{header}.{body}.{}", encode([])),
        format!("{header}.{header}.{signature}"),
        // Five parts are an encrypted token (RFC 7516).
        format!("{header}.{body}.{signature}.{body}.{signature}"),
        // The last character has bits that stand for nothing.
        format!("{header}.{body}.{}", other_last_character(signature)),
    ] {
        assert!(check(&set, &token).is_err(), "{token}");
    }
    let long = json!({ "sub": "x".repeat(TOKEN_BYTES_MAX), "exp": NOW + 60 }).to_string();
    assert_eq!(check(&set, &signed(HS256, &long, mac)), Err("the token is too long"));
    assert!(verify(b"\xff.\xff.\xff", &key_set(set.as_bytes()).unwrap(), &rules(), NOW).is_err());
}

#[test]
fn odd_signatures_of_public_keys() {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let (x, y) = point(pair.public_key().as_ref());
    let set = json!({ "keys": [{ "kty": "EC", "crv": "P-256", "x": x, "y": y }] }).to_string();
    let sign = |data: &[u8]| pair.sign(&SystemRandom::new(), data).unwrap().as_ref().to_vec();
    let header = r#"{"alg":"ES256"}"#;
    assert_eq!(check(&set, &signed(header, &payload(), sign)), Ok(()));
    let der = |data: &[u8]| {
        let fixed = sign(data);
        let integer = |bytes: &[u8]| [&[2, 33, 0], bytes].concat();
        [&[0x30, 70][..], &integer(&fixed[..32]), &integer(&fixed[32..])].concat()
    };
    type Forge<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;
    // The psychic signature of CVE-2022-21449 first.
    let odd: [(&str, Forge<'_>); 8] = [
        ("zero", &|_| vec![0; 64]),
        ("r of zero", &|data| [&[0; 32], &sign(data)[32..]].concat()),
        ("s of zero", &|data| [&sign(data)[..32], &[0; 32]].concat()),
        ("largest numbers", &|_| vec![0xff; 64]),
        ("swapped", &|data| [&sign(data)[32..], &sign(data)[..32]].concat()),
        ("half", &|data| sign(data)[..32].to_vec()),
        ("one byte more", &|data| [&sign(data)[..], &[0]].concat()),
        ("DER", &der),
    ];
    for (name, sign) in odd {
        assert!(check(&set, &signed(header, &payload(), sign)).is_err(), "{name}");
    }
}

/// A text that a decoder which ignores superfluous bits reads as the same bytes.
fn other_last_character(signature: &str) -> String {
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (rest, last) = signature.split_at(signature.len() - 1);
    let at = alphabet.find(last).unwrap();
    format!("{rest}{}", &alphabet[at + 1..at + 2])
}

#[test]
fn claims_are_checked() {
    let set = secret_set(&json!({}));
    let with = |change: &[(&str, Json)]| {
        let mut claims: Json = serde_json::from_str(&payload()).unwrap();
        for (name, value) in change {
            claims[name] = value.clone();
        }
        check(&set, &signed(HS256, &claims.to_string(), mac))
    };
    for (name, value) in [
        ("exp", json!(NOW + 1)),
        ("exp", json!(NOW as f64 + 0.5)),
        ("nbf", json!(NOW)),
        ("iat", json!(NOW + 1000)),
        ("aud", json!("shop")),
        ("aud", json!(["x", "shop"])),
    ] {
        assert_eq!(with(&[(name, value.clone())]), Ok(()), "{name}: {value}");
    }
    for (name, value) in [
        ("exp", json!(NOW)),
        ("exp", json!(0)),
        ("exp", json!(-1)),
        ("exp", json!("9999999999")),
        ("exp", json!(null)),
        ("exp", json!([NOW + 60])),
        ("exp", json!(true)),
        ("nbf", json!(NOW + 1)),
        ("nbf", json!("now")),
        ("iat", json!("now")),
        ("iss", json!("them")),
        ("iss", json!(["us"])),
        ("iss", json!(null)),
        ("iss", json!("US")),
        ("aud", json!("SHOP")),
        ("aud", json!([])),
        ("aud", json!([["shop"]])),
        ("aud", json!({ "shop": true })),
        ("aud", json!(null)),
        ("many", json!(vec!["x"; 300])),
    ] {
        assert!(with(&[(name, value.clone())]).is_err(), "{name}: {value}");
    }
    for payload in [
        r#"{"exp":9999999999,"iss":"us"}"#,
        r#"{"iss":"us","aud":"shop"}"#,
        r#"{"exp":1e999,"iss":"us","aud":"shop"}"#,
        r#"{"exp":1,"exp":9999999999,"iss":"us","aud":"shop"}"#,
        r#"{"exp":9999999999,"iss":"them","iss":"us","aud":"shop"}"#,
        "[]",
        "null",
        "",
        "eyJhbGciOiJub25lIn0.e30.",
    ] {
        assert!(check(&set, &signed(HS256, payload, mac)).is_err(), "{payload}");
    }
    // Leeway moves both ends, and a token for an audience is for no other one.
    let keys = key_set(set.as_bytes()).unwrap();
    let lax = Rules { leeway_s: 30, ..rules() };
    let late = signed(HS256, &payload(), mac);
    assert!(verify(late.as_bytes(), &keys, &lax, NOW + 89).is_ok());
    assert!(verify(late.as_bytes(), &keys, &lax, NOW + 90).is_err());
    let unnamed = Rules { audiences: Vec::new(), ..rules() };
    assert!(verify(late.as_bytes(), &keys, &unnamed, NOW).is_err());
    let endless = signed(HS256, r#"{"iss":"us","aud":"shop"}"#, mac);
    let allowed = Rules { allow_without_expiry: true, ..rules() };
    assert_eq!(verify(endless.as_bytes(), &keys, &allowed, NOW).unwrap().expires_s, u64::MAX);
}

#[test]
fn keys_that_verify_nothing_are_skipped() {
    let secret = encode(SECRET);
    for key in [
        json!({ "kty": "oct", "k": encode([1; 16]) }),
        json!({ "kty": "oct", "k": secret, "use": "enc" }),
        json!({ "kty": "oct", "k": secret, "key_ops": ["sign"] }),
        json!({ "kty": "oct", "k": secret, "alg": "none" }),
        json!({ "kty": "oct", "k": secret, "alg": "RS256" }),
        json!({ "kty": "oct", "k": format!("{secret}=") }),
        json!({ "kty": "oct" }),
        json!({ "kty": "RSA", "n": encode([0xff; 128]), "e": "AQAB" }),
        json!({ "kty": "RSA", "alg": "HS256", "n": encode([0xff; 256]), "e": "AQAB" }),
        json!({ "kty": "RSA", "n": "", "e": "" }),
        json!({ "kty": "EC", "crv": "P-256", "x": encode([1; 32]), "y": encode([1; 32]) }),
        json!({ "kty": "EC", "crv": "P-256", "x": "", "y": "" }),
        json!({ "kty": "EC", "crv": "secp256k1", "x": encode([1; 32]), "y": encode([1; 32]) }),
        json!({ "kty": "OKP", "crv": "X25519", "x": encode([1; 32]) }),
        json!({ "kty": "OKP", "crv": "Ed25519", "x": encode([1; 31]) }),
        json!({ "kty": "AKP", "alg": "ML-DSA-44", "pub": "AA" }),
        json!({ "alg": "HS256", "k": secret }),
        json!("key"),
    ] {
        let alone = json!({ "keys": [key] }).to_string();
        let refused = key_set(alone.as_bytes()).err();
        assert_eq!(refused, Some("has no key that verifies tokens"), "{key}");
        let both = json!({ "keys": [key, { "kty": "oct", "k": secret }] }).to_string();
        assert_eq!(key_set(both.as_bytes()).map(|keys| keys.len()).ok(), Some(1), "{key}");
    }
    let many = json!({ "keys": vec![json!({ "kty": "oct", "k": secret }); 129] }).to_string();
    for (text, why) in [
        (many.as_str(), "too many keys"),
        ("{}", "no list"),
        (r#"{"keys":{}}"#, "no list"),
        (r#"{"keys":[],"keys":[]}"#, "unique names"),
        ("[]", "not a JSON object"),
        ("<html>", "not a JSON object"),
    ] {
        assert!(key_set(text.as_bytes()).err().unwrap().contains(why), "{why}");
    }
}
