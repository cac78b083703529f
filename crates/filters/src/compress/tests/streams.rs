//! Streams: piece by piece, in time, with their trailers and faults.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use super::*;

/// A source that pauses at given points.
#[derive(Default)]
pub(super) struct Source {
    frames: RefCell<VecDeque<Option<Result<Frame, Fault>>>>,
    waker: Cell<Option<Waker>>,
    length: Option<u64>,
}

impl Source {
    /// `None` is a pause.
    pub(super) fn new(frames: Vec<Option<&str>>) -> Source {
        let frame = |text: &str| Ok(Frame::Data(Bytes::copy_from_slice(text.as_bytes())));
        let frames = frames.into_iter().map(|text| text.map(frame)).collect();
        Source { frames: RefCell::new(frames), ..Source::default() }
    }
}

impl BodyStream for Source {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        match self.frames.get_mut().pop_front() {
            None => Poll::Ready(None),
            Some(Some(frame)) => Poll::Ready(Some(frame)),
            Some(None) => {
                self.waker.set(Some(cx.waker().clone()));
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

#[test]
fn events_arrive_when_they_happen() {
    let compress = filter(&KIND, &node!({}));
    test(async {
        for accept in ["gzip", "br", "zstd"] {
            let source =
                Source::new(vec![Some("data: one\n\n"), None, Some("data: two\n\n"), None]);
            let response = Response::with_body(200, "text/event-stream", Body::stream(source));
            let mut response = filtered(&*compress, accept, response).await;
            assert_eq!(coding_of(&response), accept);
            let mut decoder = Decoder::new(Coding::parse(accept).unwrap(), LIMIT).unwrap();
            let mut seen = Vec::new();
            for wanted in ["data: one\n\n", "data: one\n\ndata: two\n\n"] {
                while seen.len() < wanted.len() {
                    let Some(Ok(Frame::Data(data))) = response.body.frame().await else {
                        panic!("{accept}: {wanted:?} has not come out")
                    };
                    decoder.decode(&data, &mut seen).unwrap();
                }
                assert_eq!(seen, wanted.as_bytes(), "{accept}");
            }
            while let Some(frame) = response.body.frame().await {
                let Frame::Data(data) = frame.unwrap() else { panic!("not data") };
                decoder.decode(&data, &mut seen).unwrap();
            }
            decoder.finish().unwrap();
        }
    });
}

#[test]
fn a_stream_of_known_length_is_not_cut_into_pieces() {
    let compress = filter(&KIND, &node!({}));
    test(async {
        let piece = text(3000);
        let source = Source::new(vec![Some(&piece), None, Some(&piece), None, Some(&piece)]);
        let source = Source { length: Some(9000), ..source };
        let mut response = filtered(&*compress, "gzip", html(Body::stream(source))).await;
        let mut frames = 0;
        let mut coded = Vec::new();
        while let Some(frame) = response.body.frame().await {
            let Frame::Data(data) = frame.unwrap() else { panic!("not data") };
            coded.extend_from_slice(&data);
            frames += 1;
        }
        assert_eq!(frames, 1);
        assert_eq!(decode_all(Coding::Gzip, &coded, LIMIT).unwrap(), piece.repeat(3).as_bytes());
        let short = Source { length: Some(900), ..Source::new(vec![]) };
        let response = filtered(&*compress, "gzip", html(Body::stream(short))).await;
        assert_eq!(coding_of(&response), "");
    });
}

#[test]
fn a_long_stream_passes_in_bounded_pieces() {
    let compress = filter(&KIND, &node!({}));
    test(async {
        let piece = text(10_000);
        for accept in ["gzip", "br", "zstd"] {
            for pause in [false, true] {
                let mut frames = Vec::new();
                for _ in 0..100 {
                    frames.push(Some(&*piece));
                    frames.extend(pause.then_some(None));
                }
                let body = Body::stream(Source::new(frames));
                let mut response = filtered(&*compress, accept, html(body)).await;
                assert!(decoded(&mut response).await == piece.repeat(100).as_bytes(), "{accept}");
            }
        }
    });
}

#[test]
fn trailers_follow_and_faults_stay_faults() {
    let compress = filter(&KIND, &node!({}));
    test(async {
        let mut trailers = Headers::new();
        trailers.append("x-sum", "1");
        let source = Source::new(vec![Some("text")]);
        source.frames.borrow_mut().push_back(Some(Ok(Frame::Trailers(trailers))));
        let mut response = filtered(&*compress, "gzip", html(Body::stream(source))).await;
        let mut coded = Vec::new();
        let mut trailing = None;
        while let Some(frame) = response.body.frame().await {
            match frame.unwrap() {
                Frame::Data(data) => coded.extend_from_slice(&data),
                Frame::Trailers(trailers) => trailing = Some(trailers),
                Frame::File(_) => panic!("a file"),
            }
        }
        assert_eq!(decode_all(Coding::Gzip, &coded, LIMIT).unwrap(), b"text");
        assert_eq!(trailing.unwrap().get("x-sum"), Some(&b"1"[..]));

        let source = Source::new(vec![Some("text"), None]);
        source.frames.borrow_mut().push_back(Some(Err(Fault::internal("broken"))));
        let mut response = filtered(&*compress, "gzip", html(Body::stream(source))).await;
        assert!(matches!(response.body.frame().await, Some(Ok(_))), "what came before");
        assert_eq!(response.body.frame().await.unwrap().unwrap_err().detail, "broken");
        assert!(response.body.frame().await.is_none(), "and no end that looks like a good one");
    });
}

#[test]
fn files_are_read_and_coded_on_the_pool() {
    let compress = filter(&KIND, &node!({}));
    test(async {
        let content = text(700_000);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &content).unwrap();
        let range = |offset, length| {
            let file = Arc::new(file.reopen().unwrap());
            Body::File(FileRange { file, offset, length })
        };
        let mut response = filtered(&*compress, "br", html(range(5, 600_000))).await;
        assert_eq!(coding_of(&response), "br");
        assert!(decoded(&mut response).await == content.as_bytes()[5..600_005]);
        // Shorter than announced: a normal end would look like a complete file.
        let mut response = filtered(&*compress, "gzip", html(range(0, 900_000))).await;
        let mut last = response.body.frame().await;
        while let Some(Ok(_)) = last {
            last = response.body.frame().await;
        }
        assert!(last.unwrap().unwrap_err().detail.contains("cannot be compressed"));
    });
}
