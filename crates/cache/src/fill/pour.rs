//! Content on its way from the origin into a growing body.
//!
//! Goes on while anybody reads it or may still join, and for a while afterwards. What turns out too
//! long to be kept, or finds no room, goes on as a window for those who read it, and is nobody
//! else's.

use std::time::Duration;

use exchange::{Body, Fault, Frame, Retry, SharedBodyWriter};
use net::clock::{self, Moment};

use super::Arrival;
use crate::Terms;
use crate::flight::{Landing, Lead};

/// What is kept of each piece beside its bytes.
const PIECE_BYTES: u64 = 64;
/// What is too long is kept no further ahead of the slowest who reads it.
const WINDOW_BYTES: u64 = 1024 * 1024;
/// So little is left that it would be a pity to give up.
const LITTLE_LEFT_BYTES: u64 = 64 * 1024;
/// How often it is seen whether somebody still reads, at most.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(100);
/// How much longer than usual a fetch may go on for that.
const NEARLY_DONE: u32 = 4;

/// What became of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Poured {
    Whole,
    /// It is longer than may be kept, whether or not those who read it had all of it.
    Long,
    /// It was cut off, or nobody wanted it any more.
    Failed,
}

/// SharedBody bodies count their pieces: this bound lets those of usual size be as long as allowed.
pub(super) fn growing_bytes_max(object_bytes_max: u64) -> u64 {
    object_bytes_max.saturating_add(object_bytes_max / 8).saturating_add(LITTLE_LEFT_BYTES)
}

/// Pours until the end. Nobody joins the flight any more if it is not whole.
pub(super) async fn pour(
    body: &mut Body,
    mut writer: SharedBodyWriter,
    arrival: &Arrival,
    lead: &mut Lead,
    (terms, bytes_max): (&Terms, u64),
) -> Poured {
    let mut left = Left::default();
    let mut length = 0;
    loop {
        let wanted = writer.readers() + lead.waiters() > 0;
        if !left.goes_on(wanted, length, arrival.length, terms) {
            lead.close();
            writer.fail(Fault::client_gone("nobody wants what is fetched any more"));
            return Poured::Failed;
        }
        let frame = match next(body, terms.fetch.outlive).await {
            Next::Nothing => continue,
            Next::End if arrival.length.is_none_or(|whole| whole == length) => {
                writer.finish(None);
                return Poured::Whole;
            }
            Next::End => {
                lead.close();
                writer.fail(Fault { server: arrival.server.clone(), ..cut_off() });
                return Poured::Failed;
            }
            Next::Fault(fault) => {
                lead.close();
                writer.fail(Fault { server: arrival.server.clone(), ..fault });
                return Poured::Failed;
            }
            Next::Piece(frame) => frame,
        };
        let (added, memory) = match &frame {
            Frame::Data(data) => (data.len() as u64, data.len() as u64),
            Frame::File(range) => (range.length, 0),
            Frame::Trailers(_) => continue,
        };
        length += added;
        let fits = length <= bytes_max && arrival.share.grow(memory + PIECE_BYTES);
        let taken = fits
            && match &frame {
                Frame::Data(data) => writer.push(data.clone()).is_ok(),
                Frame::File(range) => writer.push_file(range.clone()).is_ok(),
                Frame::Trailers(_) => true,
            };
        if !taken {
            lead.land_last(Landing::Alone);
            pour_on(body, writer, frame, arrival).await;
            return Poured::Long;
        }
    }
}

/// The rest of what is too long, for those who read it.
async fn pour_on(body: &mut Body, mut writer: SharedBodyWriter, first: Frame, arrival: &Arrival) {
    writer.narrow(WINDOW_BYTES);
    let mut frame = Some(Ok(first));
    loop {
        match frame {
            Some(Ok(piece)) => {
                if !writer.push_on(piece).await {
                    return;
                }
            }
            Some(Err(fault)) => {
                return writer.fail(Fault { server: arrival.server.clone(), ..fault });
            }
            None => return writer.finish(None),
        }
        frame = body.frame().await;
    }
}

enum Next {
    Piece(Frame),
    Fault(Fault),
    End,
    /// Nothing came for a while: somebody may have left meanwhile.
    Nothing,
}

async fn next(body: &mut Body, outlive: Duration) -> Next {
    // A frame that has been waited for in vain is not lost: bodies are polled.
    let look_again = outlive.max(LOOK_AGAIN_MIN);
    match net::timer::within(look_again, body.frame()).await {
        None => Next::Nothing,
        Some(None) => Next::End,
        Some(Some(Ok(frame))) => Next::Piece(frame),
        Some(Some(Err(fault))) => Next::Fault(fault),
    }
}

fn cut_off() -> Fault {
    let detail = "the content is not as long as was announced";
    Fault::upstream(502, "http_response_incomplete", Retry::IfIdempotent, detail)
}

/// Since when, and since how much of it, nobody has wanted it.
#[derive(Default)]
struct Left(Option<(Moment, u64)>);

impl Left {
    fn goes_on(&mut self, wanted: bool, length: u64, whole: Option<u64>, terms: &Terms) -> bool {
        if wanted {
            self.0 = None;
            return true;
        }
        let now = clock::now();
        let (since, had) = *self.0.get_or_insert((now, length));
        let rest = whole.map(|whole| whole.saturating_sub(length));
        let nearly = rest.is_some_and(|rest| {
            rest <= LITTLE_LEFT_BYTES || whole.is_some_and(|whole| rest <= whole / 8)
        });
        let longest = if nearly { terms.fetch.outlive * NEARLY_DONE } else { terms.fetch.outlive };
        let much = length - had >= terms.fetch.outlive_bytes && !nearly;
        now.since(since) < longest && !much
    }
}
