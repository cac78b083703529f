//! A request body whose beginning was read for inspection.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use bytes::Bytes;
use message::{Body, BodyStream, Fault, Frame};

/// Reads at least `max` bytes of a body, or all of it. Returns what was read, and the body as if it
/// had not been.
pub(crate) async fn peek(body: Body, max: usize) -> (Vec<u8>, Body) {
    let length = body.length();
    let mut rest = body;
    let mut read = Peeked { frames: VecDeque::new(), rest: Body::Empty, length };
    let mut content = Vec::new();
    while content.len() < max {
        let Some(frame) = rest.frame().await else { break };
        let is_last = !matches!(frame, Ok(Frame::Data(_)));
        if let Ok(Frame::Data(data)) = &frame {
            content.extend_from_slice(&data[..data.len().min(max - content.len())]);
        }
        read.frames.push_back(frame);
        if is_last {
            break;
        }
    }
    read.rest = rest;
    (content, Body::stream(read))
}

/// The frames that were read, then the rest.
struct Peeked {
    frames: VecDeque<Result<Frame, Fault>>,
    rest: Body,
    /// Bytes still to come, where that was known.
    length: Option<u64>,
}

impl BodyStream for Peeked {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let polled = match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => self.rest.poll_frame(cx),
        };
        if let (Poll::Ready(Some(Ok(frame))), Some(length)) = (&polled, &mut self.length) {
            let sent = match frame {
                Frame::Data(data) => Bytes::len(data) as u64,
                Frame::File(range) => range.length,
                Frame::Trailers(_) => 0,
            };
            *length = length.saturating_sub(sent);
        }
        polled
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use super::peek;
    use bytes::Bytes;
    use message::Body;

    #[test]
    fn the_body_is_whole_after_a_look_at_it() {
        net::worker::block_on_local(async {
            for (max, seen) in [(0, ""), (2, "on"), (4, "onet"), (100, "onetwo")] {
                let (mut writer, pieces) = message::shared_body(1 << 20, None);
                assert!(writer.push(Bytes::from_static(b"one")).is_ok());
                assert!(writer.push(Bytes::from_static(b"two")).is_ok());
                writer.finish(None);
                let (content, mut body) = peek(pieces.body(), max).await;
                assert_eq!(content, seen.as_bytes());
                assert_eq!(&body.collect(100).await.unwrap()[..], b"onetwo");
            }
            let (_, mut body) = peek(Body::from("four"), 2).await;
            assert_eq!(body.length(), Some(4));
            assert!(body.frame().await.is_some());
            assert_eq!(body.length(), Some(0));
        });
    }
}
