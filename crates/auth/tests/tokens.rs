//! What must hold for any bytes as a token or as a key set.

use auth::verify_token;

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
pub fn token(data: &[u8]) {
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
fn known_inputs() {
    token(TOKEN);
    token(KEY_SET);
    assert!(verify_token(TOKEN, KEY_SET, NOW).is_some());
    for at in 0..=u8::MAX {
        for bit in 0..8 {
            token(&[at, 1 << bit]);
        }
    }
    for part in [&b""[..], b".", b"..", b"e30.e30.", b"{\"keys\":[{\"kty\":\"RSA\"}]}"] {
        token(part);
    }
}
