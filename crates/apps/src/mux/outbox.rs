//! The unsent output of a connection: frames gathered in one buffer, long payloads referenced,
//! files as descriptors. Without files it is sent with one system call, usually straight from the
//! buffer.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::Bytes;
use message::Fault;
use net::{FileRange, Outgoing, Stream};
use wire::frames;

use super::messages::write_fault;

use crate::limits::{FRAMES_COPIED_BYTES, FRAMES_KEPT_BYTES, FRAMES_OUTBOX_BYTES};

#[derive(Default)]
pub(crate) struct Outbox {
    frames: Vec<u8>,
    /// Sent before everything else.
    queue: Outgoing,
    /// Sent before `frames`, one after the other.
    files: VecDeque<FileOutput>,
}

/// FILE, and the output after it.
struct FileOutput {
    stream: u32,
    file: Arc<File>,
    frame: Bytes,
    after: Outgoing,
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
            self.tail().push(bytes);
        }
    }

    /// Appends a file, as its descriptor.
    pub(crate) fn file(&mut self, stream: u32, range: FileRange) {
        self.end_frames();
        let mut frame = Vec::new();
        frames::file(&mut frame, stream, range.offset, range.length);
        let (file, frame, after) = (range.file, frame.into(), Outgoing::default());
        self.files.push_back(FileOutput { stream, file, frame, after });
    }

    /// True if streams should produce nothing more until some output is sent. Control frames are
    /// appended nevertheless.
    pub(crate) fn is_full(&self) -> bool {
        let files: u64 = self.files.iter().map(|file| file.after.length()).sum();
        self.frames.len() as u64 + self.queue.length() + files >= FRAMES_OUTBOX_BYTES
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
            let frames = std::mem::take(&mut self.frames).into();
            self.tail().push(frames);
        }
    }

    /// What is sent before `frames`, and after everything else.
    fn tail(&mut self) -> &mut Outgoing {
        match self.files.back_mut() {
            Some(file) => &mut file.after,
            None => &mut self.queue,
        }
    }

    /// Sends what the socket takes; returns true if that was all.
    pub(crate) fn send(&mut self, stream: &Stream) -> io::Result<bool> {
        if self.queue.is_empty() && self.files.is_empty() && !self.send_frames(stream)? {
            return Ok(false);
        }
        self.end_frames();
        loop {
            let sent = match self.queue.is_empty() {
                false => stream.try_send(&mut self.queue).map(|_| ()),
                true if self.files.is_empty() => return Ok(true),
                true => self.send_file(stream),
            };
            match sent {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the first file. One whose descriptor the kernel does not pass, because too many are in
    /// flight, fails its own stream.
    fn send_file(&mut self, stream: &Stream) -> io::Result<()> {
        let Some(first) = self.files.front() else { return Ok(()) };
        let sent = stream.try_send_with_descriptors(&first.frame, &[first.file.as_fd()]);
        let mut queue = Outgoing::default();
        match sent {
            // The socket takes the rest later, if it has not taken all of the frame.
            Ok(sent) => queue.push(first.frame.slice(sent..)),
            Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
                let detail = format!("a file of the body cannot be passed on: {error}");
                let mut fault = Vec::new();
                write_fault(&mut fault, first.stream, &Fault::internal(detail));
                queue.push(fault.into());
            }
            Err(error) => return Err(error),
        }
        if let Some(first) = self.files.pop_front() {
            queue.append(first.after);
        }
        self.queue = queue;
        Ok(())
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
