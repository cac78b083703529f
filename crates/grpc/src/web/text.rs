//! The body of a request in base64.

use std::task::{Context, Poll};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use message::{Body, BodyStream, Fault, FaultKind, Frame};

/// Characters that stand for up to three bytes.
const GROUP: usize = 4;

/// A body that is decoded while it is read. A client may pad each message, so padding ends a group
/// and not the body.
pub(super) struct TextBody {
    inner: Body,
    /// The beginning of a group.
    rest: Vec<u8>,
}

impl TextBody {
    pub(super) fn new(inner: Body) -> TextBody {
        TextBody { inner, rest: Vec::new() }
    }

    fn decode(&mut self, data: &[u8]) -> Result<Vec<u8>, Fault> {
        self.rest.extend_from_slice(data);
        let whole = self.rest.len() / GROUP * GROUP;
        let mut out = Vec::with_capacity(whole / GROUP * 3);
        let mut begin = 0;
        for end in (GROUP..=whole).step_by(GROUP) {
            if end == whole || self.rest[end - 1] == b'=' {
                let decoded = STANDARD.decode_vec(&self.rest[begin..end], &mut out);
                decoded.map_err(|_| malformed())?;
                begin = end;
            }
        }
        self.rest.drain(..whole);
        Ok(out)
    }
}

fn malformed() -> Fault {
    Fault::new(FaultKind::GrpcMalformed, "a body that is not base64")
}

impl BodyStream for TextBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        loop {
            return Poll::Ready(match self.inner.poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(Frame::Data(data)))) => match self.decode(&data) {
                    Ok(decoded) if decoded.is_empty() => continue,
                    Ok(decoded) => Some(Ok(Frame::Data(Bytes::from(decoded)))),
                    Err(fault) => Some(Err(fault)),
                },
                Poll::Ready(None) if !self.rest.is_empty() => {
                    self.rest.clear();
                    Some(Err(malformed()))
                }
                Poll::Ready(frame) => frame,
            });
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str, size: usize) -> Result<Vec<u8>, u16> {
        let mut body = TextBody::new(Body::Empty);
        let mut out = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            out.extend(body.decode(piece).map_err(|fault| fault.status)?);
        }
        if body.rest.is_empty() { Ok(out) } else { Err(0) }
    }

    #[test]
    fn text_is_decoded_in_any_pieces() {
        let text = [STANDARD.encode("one"), STANDARD.encode("a"), STANDARD.encode("")].concat();
        let text = [text, STANDARD.encode("more")].concat();
        for size in 1..=text.len() {
            assert_eq!(decoded(&text, size).unwrap(), b"oneamore", "{size}");
        }
    }

    #[test]
    fn what_is_not_base64_is_rejected() {
        assert_eq!(decoded("AAA\n", 4), Err(400));
        assert_eq!(decoded("A=AA", 4), Err(400));
        assert_eq!(decoded("AAAAA", 5), Err(0), "half a group");
    }
}
