//! Waiting for a call: until its coroutine has ended, or has said all of the answer, or streams it.

use std::future::poll_fn;
use std::task::Poll;

use exchange::{Body, Fault, Outcome, Request, Response};

use super::attached;
use super::call::Ticket;
use super::outlet::Streamed;
use super::reading;

pub(super) fn failed() -> Fault {
    Fault::internal("a function of Lua failed; its traceback stands before this")
}

/// What has come of a call so far.
pub(super) enum Stand {
    Ended,
    Failed,
    /// The answer is whole, or streams; the coroutine goes on.
    Answers,
    Waits,
}

pub(super) fn stand(ticket: &Ticket) -> Stand {
    ticket.with(|call| match call.ended() {
        Some(false) => Stand::Failed,
        _ if call.outlet.is_some() => Stand::Answers,
        Some(true) => Stand::Ended,
        None if call.finished => Stand::Answers,
        None => Stand::Waits,
    })
}

/// Waits for a parked call, which then has something to say.
pub(super) async fn wait(ticket: &Ticket) {
    poll_fn(|cx| {
        loop {
            if !matches!(stand(ticket), Stand::Waits) {
                return Poll::Ready(());
            }
            ticket.with(|call| call.sleep(cx.waker()));
            if reading::poll(ticket, cx).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await;
    ticket.running.weigh();
}

/// The answer of a call that was waited for.
pub(super) fn answer(ticket: Ticket, request: &mut Request) -> Outcome {
    match stand(&ticket) {
        Stand::Failed => {
            ticket.release_free_memory(request);
            Err(failed())
        }
        Stand::Answers => {
            let outlet = ticket.with(|call| call.outlet.clone());
            let mut response: Response = ticket.with(|call| call.reply())?;
            if let Some(outlet) = outlet {
                response.body = Body::stream(Streamed::new(ticket, outlet));
            }
            Ok(response)
        }
        Stand::Ended | Stand::Waits => {
            ticket.release_free_memory(request);
            ticket.with(|call| call.reply())
        }
    }
}

/// The parked call of a request.
pub(super) fn parked(request: &Request) -> Result<Ticket, Fault> {
    attached::take(request).ok_or_else(|| Fault::internal("a Lua call was waited for twice"))
}
