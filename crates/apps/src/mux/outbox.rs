//! The unsent output of a connection: frames gathered in one buffer, long payloads referenced. It
//! is sent with one system call, usually straight from the buffer.

use std::io;

use bytes::Bytes;
use net::{Outgoing, Stream};

use crate::limits::{FRAMES_COPIED_BYTES, FRAMES_KEPT_BYTES, FRAMES_OUTBOX_BYTES};

#[derive(Default)]
pub(crate) struct Outbox {
    frames: Vec<u8>,
    /// Sent before `frames`.
    queue: Outgoing,
}

impl Outbox {
    /// The buffer to which frames are appended.
    pub(crate) fn frames(&mut self) -> &mut Vec<u8> {
        &mut self.frames
    }

    /// Appends the payload of the frame whose header was appended last.
    pub(crate) fn payload(&mut self, bytes: Bytes) {
        if bytes.len() <= FRAMES_COPIED_BYTES {
            self.frames.extend_from_slice(&bytes);
        } else {
            self.end_frames();
            self.queue.push(bytes);
        }
    }

    /// True if streams should produce nothing more until some output is sent. Control frames are
    /// appended nevertheless.
    pub(crate) fn is_full(&self) -> bool {
        self.frames.len() as u64 + self.queue.length() >= FRAMES_OUTBOX_BYTES
    }

    /// All of it, for tests of its users.
    #[cfg(test)]
    pub(super) async fn take_all(mut self) -> Vec<u8> {
        let (one, other) = Stream::pair().unwrap();
        let length = self.frames.len() + self.queue.length() as usize;
        assert!(self.send(&one).unwrap(), "more than a socket takes");
        let mut all = Vec::new();
        while all.len() < length {
            all.extend_from_slice(&other.receive().await.unwrap());
        }
        all
    }

    fn end_frames(&mut self) {
        if !self.frames.is_empty() {
            self.queue.push(std::mem::take(&mut self.frames).into());
        }
    }

    /// Sends what the socket takes; returns true if that was all.
    pub(crate) fn send(&mut self, stream: &Stream) -> io::Result<bool> {
        if self.queue.is_empty() && !self.send_frames(stream)? {
            return Ok(false);
        }
        self.end_frames();
        while !self.queue.is_empty() {
            match stream.try_send(&mut self.queue) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Sends straight from the buffer; the rest is moved to the queue.
    fn send_frames(&mut self, stream: &Stream) -> io::Result<bool> {
        let mut sent = 0;
        while sent < self.frames.len() {
            match stream.try_send_slice(&self.frames[sent..]) {
                Ok(taken) => sent += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let rest = Bytes::from(std::mem::take(&mut self.frames)).split_off(sent);
                    self.queue.push(rest);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.frames.clear();
        self.frames.shrink_to(FRAMES_KEPT_BYTES);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_sent_in_order_in_small_writes() {
        net::worker::block_on_local(async {
            let (one, other) = Stream::pair().unwrap();
            let mut outbox = Outbox::default();
            let mut expected = Vec::new();
            for number in 0..200_u32 {
                let head = number.to_le_bytes();
                outbox.frames().extend_from_slice(&head);
                expected.extend_from_slice(&head);
                let body = vec![number as u8; if number % 3 == 0 { 100_000 } else { 10 }];
                expected.extend_from_slice(&body);
                outbox.payload(body.into());
            }
            assert!(outbox.is_full());
            let sending = net::task::spawn_local(async move {
                while !outbox.send(&one).unwrap() {
                    std::future::poll_fn(|cx| one.poll_writable(cx)).await.unwrap();
                }
                assert!(outbox.queue.is_empty());
            });
            let mut received = Vec::new();
            while received.len() < expected.len() {
                received.extend_from_slice(&other.receive().await.unwrap());
            }
            assert!(received == expected);
            sending.await.unwrap();
        });
    }
}
