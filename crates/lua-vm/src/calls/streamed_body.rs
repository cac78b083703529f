//! The body of a streamed response.
//!
//! Promises that a failed script aborts the response, and that a client that disconnects ends the
//! coroutine.

use std::rc::Rc;
use std::task::{Context, Poll};

use message::{BodyStream, Fault, Frame};

use super::handle::CallHandle;
use super::response_stream::ResponseStream;
use crate::limits::STREAM_BYTES;

/// The body that the client gets.
pub(super) struct StreamedBody {
    handle: CallHandle,
    outlet: Rc<ResponseStream>,
}

impl StreamedBody {
    pub(super) fn new(handle: CallHandle, outlet: Rc<ResponseStream>) -> StreamedBody {
        StreamedBody { handle, outlet }
    }
}

impl BodyStream for StreamedBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        loop {
            let piece = self.outlet.pieces.borrow_mut().pop_front();
            if let Some(piece) = piece {
                self.outlet.bytes.set(self.outlet.bytes.get() - piece.len());
                if self.outlet.bytes.get() < STREAM_BYTES / 2
                    && !self.outlet.writers.borrow().is_empty()
                {
                    let writers = self.outlet.take_writers();
                    self.handle.running.vm().turn(|turn| {
                        for writer in writers {
                            turn.wake_with(writer, |_| 0);
                        }
                    });
                }
                return Poll::Ready(Some(Ok(Frame::Data(piece))));
            }
            match self.handle.with(|call| (call.ended(), call.finished)) {
                (Some(true), _) | (None, true) => return Poll::Ready(None),
                (Some(false), _) => {
                    let fault = Fault::internal("the Lua handler failed while it streamed");
                    return Poll::Ready(Some(Err(fault)));
                }
                (None, false) => {}
            }
            self.outlet.reader.set(Some(cx.waker().clone()));
            self.handle.with(|call| call.sleep(cx.waker()));
            if self.handle.poll_body(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }
}
