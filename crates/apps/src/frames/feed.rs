//! The body of a request that arrives in frames.
//!
//! Received data costs the sender credit, which is returned when the data is passed on: that is the
//! back-pressure. No waker is needed: the code that adds a frame polls the reader afterwards.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use message::{BodyStream, Fault, Frame, Headers};
use wire::frames::{self, Kind, Malformed};

use crate::limits::FRAMES_WINDOW;
use crate::mux::ReceiveWindow;

/// Frames created while the connection is not sending; sent with the next step.
pub(super) type ExtraFrames = Rc<RefCell<Vec<u8>>>;

/// The writing end.
pub(super) struct BodyFeed(Rc<RefCell<BodyQueue>>);

/// The reading end.
struct BodyReader(Rc<RefCell<BodyQueue>>);

struct BodyQueue {
    number: u32,
    frames: VecDeque<(Frame, u32)>,
    end: Option<Result<(), Fault>>,
    credit: ReceiveWindow,
    /// Remaining length, if the request head declares it.
    left: Option<u64>,
    /// The reader was dropped.
    stopped: bool,
    extra: ExtraFrames,
}

impl BodyFeed {
    /// Creates both ends. For `Expect: 100-continue` the sender has no credit until the body is
    /// read.
    pub(super) fn new(
        number: u32,
        left: Option<u64>,
        expects: bool,
        extra: &ExtraFrames,
    ) -> (BodyFeed, impl BodyStream + 'static) {
        let credit = match expects {
            true => ReceiveWindow::withheld(FRAMES_WINDOW),
            false => ReceiveWindow::new(FRAMES_WINDOW),
        };
        let queue = Rc::new(RefCell::new(BodyQueue {
            number,
            frames: VecDeque::new(),
            end: None,
            credit,
            left,
            stopped: false,
            extra: extra.clone(),
        }));
        (BodyFeed(queue.clone()), BodyReader(queue))
    }

    pub(super) fn data(&self, bytes: Bytes, cost: u32, end: bool) -> Result<(), Malformed> {
        let mut queue = self.open()?;
        queue.credit.spend(cost)?;
        if !bytes.is_empty() && !queue.stopped {
            queue.frames.push_back((Frame::Data(bytes), cost));
        }
        if end {
            queue.end = Some(Ok(()));
        }
        Ok(())
    }

    pub(super) fn trailers(&self, fields: Headers) -> Result<(), Malformed> {
        let mut queue = self.open()?;
        queue.frames.push_back((Frame::Trailers(fields), 0));
        queue.end = Some(Ok(()));
        Ok(())
    }

    pub(super) fn fail(&self, fault: Fault) -> Result<(), Malformed> {
        self.open()?.end = Some(Err(fault));
        Ok(())
    }

    /// Fails if the body has already ended.
    fn open(&self) -> Result<std::cell::RefMut<'_, BodyQueue>, Malformed> {
        let queue = self.0.borrow_mut();
        if queue.end.is_some() { Err(Malformed::Stream) } else { Ok(queue) }
    }
}

impl BodyStream for BodyReader {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let queue = &mut *self.0.borrow_mut();
        let next = queue.frames.pop_front();
        if let Some((_, cost)) = &next {
            queue.credit.passed_on(*cost);
        }
        if queue.end.is_none() && queue.credit.is_due() {
            queue.credit.renew(queue.number, &mut queue.extra.borrow_mut());
        }
        match (next, &queue.end) {
            (Some((frame, _)), _) => {
                if let Frame::Data(bytes) = &frame {
                    queue.left = queue.left.map(|left| left.saturating_sub(bytes.len() as u64));
                }
                Poll::Ready(Some(Ok(frame)))
            }
            (None, None) => Poll::Pending,
            (None, Some(Ok(()))) => Poll::Ready(None),
            (None, Some(Err(fault))) => {
                let fault = fault.clone();
                queue.end = Some(Ok(()));
                Poll::Ready(Some(Err(fault)))
            }
        }
    }

    fn length(&self) -> Option<u64> {
        self.0.borrow().left
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        let queue = &mut *self.0.borrow_mut();
        queue.stopped = true;
        queue.frames.clear();
        if queue.end.is_none() {
            frames::bare(&mut queue.extra.borrow_mut(), Kind::Stop, queue.number);
        }
    }
}
