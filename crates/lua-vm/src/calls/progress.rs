//! Waits for a call until its coroutine has ended, or has completed or begun to stream its
//! response.

use std::future::poll_fn;
use std::task::Poll;

use message::{Body, Fault, HandlerResult, Request, Response};

use super::handle::CallHandle;
use super::streamed_body::StreamedBody;

/// The fault of a call whose function raised an error.
pub fn failed() -> Fault {
    Fault::internal("Lua error, traceback above")
}

/// The progress of a call.
pub enum CallProgress {
    /// The coroutine has ended.
    Ended,
    /// The coroutine has ended with an error.
    Failed,
    /// The response is complete, or streams, and the coroutine still runs.
    Responding,
    /// The coroutine waits and has not made its response.
    Waiting,
}

impl CallHandle {
    pub fn progress(&self) -> CallProgress {
        self.with(|call| match call.ended() {
            Some(false) => CallProgress::Failed,
            _ if call.outlet.is_some() => CallProgress::Responding,
            Some(true) => CallProgress::Ended,
            None if call.finished => CallProgress::Responding,
            None => CallProgress::Waiting,
        })
    }

    /// Waits until the coroutine has ended or has made its response.
    pub async fn wait(&self) {
        poll_fn(|cx| {
            loop {
                if !matches!(self.progress(), CallProgress::Waiting) {
                    return Poll::Ready(());
                }
                self.with(|call| call.sleep(cx.waker()));
                if self.poll_body(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await;
        self.running.check_memory();
    }

    /// The response of a call that was waited for.
    pub fn into_outcome(self, request: &mut Request) -> HandlerResult {
        match self.progress() {
            CallProgress::Failed => {
                self.give_back(request);
                Err(failed())
            }
            CallProgress::Responding => {
                let outlet = self.with(|call| call.outlet.clone());
                let mut response: Response = self.take_response()?;
                if let Some(outlet) = outlet {
                    response.body = Body::stream(StreamedBody::new(self, outlet));
                }
                Ok(response)
            }
            CallProgress::Ended | CallProgress::Waiting => {
                self.give_back(request);
                self.take_response()
            }
        }
    }

    /// The response as the script has made it so far, or why the request could not be read.
    pub fn take_response(&self) -> Result<Response, Fault> {
        self.with(|call| call.reply())
    }

    /// True if the script has set anything of the response, or the request could not be read.
    pub fn has_response(&self) -> bool {
        self.with(|call| call.answered || call.fault.is_some())
    }
}
