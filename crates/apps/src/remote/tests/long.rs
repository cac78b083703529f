//! Long bodies: the bytes in flight are bounded in both directions.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use message::{BodyStream, Frame};
use net::FileRange;

use super::process::content;
use super::*;

const TEN_MB: usize = 10_000_000;
/// Both windows, both queues of the hand-over, and pieces between them.
const IN_FLIGHT_MAX: usize = 6 * 256 * 1024;

/// Pieces of a body, counted as they are polled.
struct Source {
    left: usize,
    piece: usize,
    given: Arc<AtomicUsize>,
}

impl BodyStream for Source {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let piece = self.piece.min(self.left);
        if piece == 0 {
            return Poll::Ready(None);
        }
        self.left -= piece;
        self.given.fetch_add(piece, Ordering::SeqCst);
        Poll::Ready(Some(Ok(Frame::Data(Bytes::from(vec![b'u'; piece])))))
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

fn source(piece: usize) -> (Body, Arc<AtomicUsize>) {
    let given = Arc::new(AtomicUsize::new(0));
    (Body::stream(Source { left: TEN_MB, piece, given: given.clone() }), given)
}

#[test]
fn ten_megabytes_pass_both_ways_with_bounded_memory() {
    let process = Process::start();
    block_on_local(async {
        let remote = super::remote(slots(&[&process]));
        // An echo: the data read here was transferred in both directions.
        for piece in [100, 20_000, 700_000] {
            let (body, given) = source(piece);
            let mut answered = ask(&remote, "/stream", body).await.unwrap().body;
            let (mut taken, mut most) = (0, 0);
            while let Some(frame) = answered.frame().await {
                let Frame::Data(data) = frame.unwrap() else { panic!("data was expected") };
                assert!(data.iter().all(|byte| *byte == b'u'));
                most = most.max(given.load(Ordering::SeqCst) - taken);
                taken += data.len();
            }
            assert_eq!(taken, TEN_MB);
            assert!(most <= 2 * IN_FLIGHT_MAX + 2 * piece, "{most} bytes were in flight");
        }
    });
}

#[test]
fn ten_megabytes_at_once_arrive_whole() {
    let process = Process::start();
    block_on_local(async {
        let remote = super::remote(slots(&[&process]));
        let body: String = (0..TEN_MB / 10).map(|number| format!("{number:09},")).collect();
        let answered = ask(&remote, "/echo", body.clone()).await.unwrap();
        assert_eq!(answered.body.length(), Some(TEN_MB as u64));
        assert!(text(Ok(answered)).await == body);
    });
}

#[test]
fn a_client_that_does_not_read_delays_only_its_own_response() {
    let process = Process::start();
    block_on_local(async {
        let remote = super::remote(slots(&[&process]));
        let endless: Vec<_> =
            (0..3).map(|_| offer(&remote, request("/endless", Body::Empty)).unwrap()).collect();
        let mut answers = Vec::new();
        for local in endless {
            answers.push(local.await.unwrap());
        }
        for number in 0..50 {
            let body = format!("{number}").repeat(1000);
            assert_eq!(text(ask(&remote, "/echo", body.clone()).await).await, body);
        }
        drop(answers);
        for _ in 0..3 {
            assert_eq!(process.said().await, "unwanted");
        }
    });
}

/// The body of a response, and the number of its parts in files.
async fn with_files(response: Result<Response, Fault>) -> Result<(Vec<u8>, usize), Fault> {
    let mut body = response?.body;
    let (mut bytes, mut files) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        match frame? {
            Frame::Data(data) => bytes.extend_from_slice(&data),
            Frame::File(range) => {
                files += 1;
                bytes.extend_from_slice(&Body::File(range).collect(u64::MAX).await?);
            }
            Frame::Trailers(_) => {}
        }
    }
    Ok((bytes, files))
}

#[test]
fn a_long_file_of_a_response_is_passed_as_a_descriptor() {
    let process = Process::start();
    block_on_local(async {
        let remote = super::remote(slots(&[&process]));
        for (length, files) in [(10, 0), (60_000, 0), (100_000, 1), (3_000_000, 3)] {
            let answered = ask(&remote, &format!("/file?{length},"), "").await;
            let (bytes, found) = with_files(answered).await.unwrap();
            let expected = [b"head", &content(length)[1..], b"tail"].concat();
            assert!(bytes == expected, "{length}");
            // Three windows of a mebibyte of the longest.
            assert_eq!(found, files, "{length}");
        }
        // Many at a time.
        let all: Vec<_> = (0..40).map(|_| request("/file?70000,", Body::Empty)).collect();
        let all: Vec<_> = all.into_iter().map(|one| offer(&remote, one).unwrap()).collect();
        for answered in all {
            let (bytes, found) = with_files(answered.await).await.unwrap();
            assert_eq!((bytes.len(), found), (70_007, 1));
        }
    });
}

#[test]
fn a_file_that_cannot_be_sent_fails_alone() {
    let process = Process::start();
    block_on_local(async {
        let remote = super::remote(slots(&[&process]));
        for wrong in ["truncated", "device"] {
            let answered = ask(&remote, &format!("/file?100000,{wrong}"), "").await;
            let fault = with_files(answered).await.err().unwrap();
            assert_eq!((fault.status, fault.slug()), (500, "internal_error"), "{wrong}");
            assert_eq!(text(ask(&remote, "/echo", "still").await).await, "still");
        }
    });
}

#[test]
fn a_file_is_sent_and_a_truncated_one_fails_alone() {
    let process = Process::start();
    let name = format!("tidegate-frames-file-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let content: String = (0..100_000).map(|number| format!("{number:04}")).collect();
    File::create(&path).unwrap().write_all(content.as_bytes()).unwrap();
    let file = Arc::new(File::open(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
    let range = |offset, length| Body::File(FileRange { file: file.clone(), offset, length });
    block_on_local(async {
        let remote = super::remote(slots(&[&process]));
        let length = content.len() as u64;
        assert!(text(ask(&remote, "/echo", range(0, length)).await).await == content);
        assert_eq!(text(ask(&remote, "/echo", range(3, 5)).await).await, content[3..8]);
        let fault = ask(&remote, "/strict", range(length - 4, 8)).await.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (500, "internal_error"));
        assert_eq!(text(ask(&remote, "/echo", "still").await).await, "still");
    });
}
