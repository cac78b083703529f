//! The key of an opening handshake (RFC 6455 4.2.2), which proves that a server supports WebSocket.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// The constant that is appended to the key before hashing (section 1.3).
const SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Makes the Sec-WebSocket-Key of a client from random bytes.
pub fn encode_key(random: [u8; 16]) -> String {
    STANDARD.encode(random)
}

/// Computes Sec-WebSocket-Accept for a Sec-WebSocket-Key; `None` if the key is not 16 bytes in
/// Base64.
pub fn accept_key(key: &[u8]) -> Option<String> {
    let decoded = STANDARD.decode(key).ok()?;
    let digest = Sha1::new().chain_update(key).chain_update(SUFFIX).finalize();
    (decoded.len() == 16).then(|| STANDARD.encode(digest))
}

#[cfg(test)]
mod tests {
    use super::{accept_key, encode_key};

    #[test]
    fn a_key_that_is_made_is_accepted() {
        assert!(accept_key(encode_key([0xFF; 16]).as_bytes()).is_some());
    }

    #[test]
    fn the_example_of_section_1_3() {
        let accept = accept_key(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept.as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        for key in ["", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZQ==", "?GhlIHNhbXBsZSBub25jZQ=="] {
            assert_eq!(accept_key(key.as_bytes()), None, "{key}");
        }
    }
}
