//! Signed tokens and key sets.

use crate::{FuzzTarget, owned};
use auth::verify_token;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: token,
    seeds: || owned(&[TOKEN, KEY_SET, b"e30.e30.", b"{\"keys\":[{\"kty\":\"RSA\"}]}"]),
    dictionary: &[
        ".",
        "e30",
        "=",
        "_",
        "\"kty\":",
        "\"oct\"",
        "\"alg\":\"none\"",
        "{",
        "}",
        "null",
    ],
    cases: 2500,
};

/// The key and the token of RFC 7515 A.1, a second before it expires.
const KEY_SET: &[u8] = b"{\"keys\":[{\"kty\":\"oct\",\"k\":\"\
AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow\"}]}";
const TOKEN: &[u8] = b"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.\
dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const NOW: u64 = 1_300_819_379;

const KEY: &[u8] =
    b"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";

/// Only the token that was signed is valid: neither the input nor the token with a byte changed.
fn token(data: &[u8]) {
    let claims = verify_token(data, KEY_SET, NOW);
    assert_eq!(claims.is_some(), data == TOKEN);
    // Whatever keys there are, the token is not of one that the input makes up.
    let claims = verify_token(TOKEN, data, NOW);
    let has_key = data.windows(KEY.len()).any(|window| window == KEY);
    assert!(claims.is_none() || has_key);
    if let [at, change, ..] = *data {
        let mut altered = TOKEN.to_vec();
        let at = usize::from(at) % altered.len();
        altered[at] ^= change;
        assert_eq!(verify_token(&altered, KEY_SET, NOW).is_some(), altered == TOKEN);
    }
}

#[test]
fn the_token_is_valid_and_with_any_bit_changed_it_is_not() {
    assert!(verify_token(TOKEN, KEY_SET, NOW).is_some());
    for at in 0..=u8::MAX {
        for bit in 0..8 {
            token(&[at, 1 << bit]);
        }
    }
}
