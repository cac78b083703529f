//! The body of a request as it comes in frames.
//!
//! What is not passed on has cost its sender credit, and that is renewed only as it is passed on:
//! that is the back-pressure. It needs no waker: whoever puts something in polls it afterwards.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use exchange::{BodyStream, Fault, Frame, Headers};
use wire::frames::{self, Kind, Malformed};

use crate::conduit::Credit;
use crate::limits::FRAMES_WINDOW;

/// Frames that are to be sent although nobody sends at the moment.
pub(super) type Asides = Rc<RefCell<Vec<u8>>>;

/// The end that is filled.
pub(super) struct Feed(Rc<RefCell<Lane>>);

/// The end that is read.
struct Reading(Rc<RefCell<Lane>>);

struct Lane {
    number: u32,
    frames: VecDeque<(Frame, u32)>,
    end: Option<Result<(), Fault>>,
    credit: Credit,
    /// What is still to come, where the head has said so.
    left: Option<u64>,
    /// Nobody reads it any more.
    stopped: bool,
    asides: Asides,
}

impl Feed {
    /// Both ends. Where the client waits to be asked for the body, the sender has no credit before.
    pub(super) fn new(
        number: u32,
        left: Option<u64>,
        expects: bool,
        asides: &Asides,
    ) -> (Feed, impl BodyStream + 'static) {
        let credit = match expects {
            true => Credit::withheld(FRAMES_WINDOW),
            false => Credit::new(FRAMES_WINDOW),
        };
        let lane = Rc::new(RefCell::new(Lane {
            number,
            frames: VecDeque::new(),
            end: None,
            credit,
            left,
            stopped: false,
            asides: asides.clone(),
        }));
        (Feed(lane.clone()), Reading(lane))
    }

    pub(super) fn data(&self, bytes: Bytes, cost: u32, end: bool) -> Result<(), Malformed> {
        let mut lane = self.open()?;
        lane.credit.spend(cost)?;
        if !bytes.is_empty() && !lane.stopped {
            lane.frames.push_back((Frame::Data(bytes), cost));
        }
        if end {
            lane.end = Some(Ok(()));
        }
        Ok(())
    }

    pub(super) fn trailers(&self, fields: Headers) -> Result<(), Malformed> {
        let mut lane = self.open()?;
        lane.frames.push_back((Frame::Trailers(fields), 0));
        lane.end = Some(Ok(()));
        Ok(())
    }

    pub(super) fn fail(&self, fault: Fault) -> Result<(), Malformed> {
        self.open()?.end = Some(Err(fault));
        Ok(())
    }

    /// Nothing may come behind the end.
    fn open(&self) -> Result<std::cell::RefMut<'_, Lane>, Malformed> {
        let lane = self.0.borrow_mut();
        if lane.end.is_some() { Err(Malformed::Stream) } else { Ok(lane) }
    }
}

impl BodyStream for Reading {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let lane = &mut *self.0.borrow_mut();
        let next = lane.frames.pop_front();
        if let Some((_, cost)) = &next {
            lane.credit.passed_on(*cost);
        }
        if lane.end.is_none() && lane.credit.is_due() {
            lane.credit.renew(lane.number, &mut lane.asides.borrow_mut());
        }
        match (next, &lane.end) {
            (Some((frame, _)), _) => {
                if let Frame::Data(bytes) = &frame {
                    lane.left = lane.left.map(|left| left.saturating_sub(bytes.len() as u64));
                }
                Poll::Ready(Some(Ok(frame)))
            }
            (None, None) => Poll::Pending,
            (None, Some(Ok(()))) => Poll::Ready(None),
            (None, Some(Err(fault))) => {
                let fault = fault.clone();
                lane.end = Some(Ok(()));
                Poll::Ready(Some(Err(fault)))
            }
        }
    }

    fn length(&self) -> Option<u64> {
        self.0.borrow().left
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let lane = &mut *self.0.borrow_mut();
        lane.stopped = true;
        lane.frames.clear();
        if lane.end.is_none() {
            frames::bare(&mut lane.asides.borrow_mut(), Kind::Stop, lane.number);
        }
    }
}
