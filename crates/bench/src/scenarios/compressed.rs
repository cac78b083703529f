//! Compressed responses, which each server generates in its own way: waits until they are available
//! and checks their content.

use super::probe::{ProbeResponse, WAIT, ask, connect};
use flate2::Compression;
use flate2::read::{GzDecoder, GzEncoder};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How often a server is asked that is not ready.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// The smallest result of gzip.
pub(super) fn gzip(document: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    GzEncoder::new(document, Compression::best())
        .read_to_end(&mut whole)
        .expect("memory can be read and written");
    whole
}

pub(super) fn is_gzip_of(body: &[u8], document: &[u8]) -> bool {
    let mut whole = Vec::new();
    let limit = document.len() as u64 + 1;
    let read = GzDecoder::new(body).take(limit).read_to_end(&mut whole);
    read.is_ok() && whole == document
}

/// Asks until the response is there, has a length and is compressed if it shall be: the first one
/// is passed on as it comes from the backend. The error is half a sentence.
pub(super) fn warm(
    address: SocketAddr,
    request: &[u8],
    coded: bool,
    deadline: Instant,
) -> Result<(), String> {
    let deadline = deadline.min(Instant::now() + WAIT);
    let once = || -> io::Result<ProbeResponse> {
        // A new one each time: the framing that we do not read may have been in the last.
        ask(&mut connect(address, deadline)?, request, deadline)
    };
    loop {
        let answer = once();
        match &answer {
            Ok(answer) if answer.status == 200 && answer.body.starts_with(b"\x1f\x8b") == coded => {
                return Ok(());
            }
            _ if Instant::now() + ASK_EVERY < deadline => std::thread::sleep(ASK_EVERY),
            Ok(answer) => return Err(format!("answers {} and not as it should", answer.status)),
            Err(why) => return Err(format!("does not answer: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{gzip, is_gzip_of};

    #[test]
    fn what_was_compressed_is_known_again() {
        let compressed = gzip(b"text text text");
        assert!(is_gzip_of(&compressed, b"text text text"));
        assert!(!is_gzip_of(&compressed, b"text text"));
        assert!(!is_gzip_of(&compressed[..8], b"text text text"));
        assert!(!is_gzip_of(b"text", b"text"));
    }
}
