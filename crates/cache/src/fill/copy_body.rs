//! Copies content from the origin to its readers.
//!
//! Copying continues while the content has readers or a request may still join, and for a bounded
//! time after that. Content that turns out too long to be stored, or finds no memory, passes
//! through a bounded window to its readers.

use std::time::Duration;

use message::{Body, Fault, FaultKind, Frame, SharedBodyWriter};
use net::clock::{self, Moment};

use super::StreamingResponse;
use crate::FilterConfig;
use crate::single_flight::{FetchResult, Leader};

/// Memory for each piece in addition to its bytes.
const PIECE_BYTES: u64 = 64;
/// Content that is too long is copied at most so far ahead of its slowest reader.
const WINDOW_BYTES: u64 = 1024 * 1024;
/// With no more than this missing, a fetch without readers continues for longer.
const LITTLE_LEFT_BYTES: u64 = 64 * 1024;
/// The minimum interval at which readers are counted while no data arrives.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(100);
/// The factor by which a nearly complete fetch may continue longer.
const NEARLY_DONE: u32 = 4;

/// The result of copying content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyResult {
    Complete,
    /// The content is longer than may be stored, whether or not its readers got all of it.
    TooLong,
    /// The content was cut off, or had no reader left.
    Failed,
}

/// The bound of a shared body for content of this length: shared bodies count their pieces too.
pub(super) fn shared_body_bytes_max(object_bytes_max: u64) -> u64 {
    object_bytes_max.saturating_add(object_bytes_max / 8).saturating_add(LITTLE_LEFT_BYTES)
}

/// Copies to the end. No request joins any more if the content is not complete.
pub(super) async fn copy_body(
    body: &mut Body,
    mut writer: SharedBodyWriter,
    streaming: &StreamingResponse,
    leader: &mut Leader,
    (config, bytes_max): (&FilterConfig, u64),
) -> CopyResult {
    let mut unwanted = UnwantedSince::default();
    let mut length = 0;
    loop {
        let is_wanted = writer.readers() + leader.followers() > 0;
        if !unwanted.continues(is_wanted, length, streaming.length, config) {
            leader.close();
            writer.fail(Fault::client_gone("no client reads the response any more"));
            return CopyResult::Failed;
        }
        let frame = match next(body, config.fetch.outlive).await {
            NextFrame::Idle => continue,
            NextFrame::End if streaming.length.is_none_or(|whole| whole == length) => {
                writer.finish(None);
                return CopyResult::Complete;
            }
            NextFrame::End => {
                leader.close();
                writer.fail(Fault { server: streaming.server.clone(), ..cut_off() });
                return CopyResult::Failed;
            }
            NextFrame::Fault(fault) => {
                leader.close();
                writer.fail(Fault { server: streaming.server.clone(), ..fault });
                return CopyResult::Failed;
            }
            NextFrame::Piece(frame) => frame,
        };
        let (added, memory) = match &frame {
            Frame::Data(data) => (data.len() as u64, data.len() as u64),
            Frame::File(range) => (range.length, 0),
            Frame::Trailers(_) => continue,
        };
        length += added;
        let fits = length <= bytes_max && streaming.share.grow(memory + PIECE_BYTES);
        let taken = fits
            && match &frame {
                Frame::Data(data) => writer.push(data.clone()).is_ok(),
                Frame::File(range) => writer.push_file(range.clone()).is_ok(),
                Frame::Trailers(_) => true,
            };
        if !taken {
            leader.publish_last(FetchResult::Unshared);
            copy_rest(body, writer, frame, streaming).await;
            return CopyResult::TooLong;
        }
    }
}

/// Copies the rest of content that is too long to its readers.
async fn copy_rest(
    body: &mut Body,
    mut writer: SharedBodyWriter,
    first: Frame,
    streaming: &StreamingResponse,
) {
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
                return writer.fail(Fault { server: streaming.server.clone(), ..fault });
            }
            None => return writer.finish(None),
        }
        frame = body.frame().await;
    }
}

enum NextFrame {
    Piece(Frame),
    Fault(Fault),
    End,
    /// No data arrived for a while: the readers are counted again.
    Idle,
}

async fn next(body: &mut Body, outlive: Duration) -> NextFrame {
    // Dropping the future loses no frame: bodies are polled.
    let look_again = outlive.max(LOOK_AGAIN_MIN);
    match net::timer::within(look_again, body.frame()).await {
        None => NextFrame::Idle,
        Some(None) => NextFrame::End,
        Some(Some(Ok(frame))) => NextFrame::Piece(frame),
        Some(Some(Err(fault))) => NextFrame::Fault(fault),
    }
}

fn cut_off() -> Fault {
    let detail = "the content is not as long as was announced";
    Fault::new(FaultKind::ResponseIncomplete, detail)
}

/// Since when the content has had no reader, and how much had been copied then.
#[derive(Default)]
struct UnwantedSince(Option<(Moment, u64)>);

impl UnwantedSince {
    fn continues(
        &mut self,
        is_wanted: bool,
        length: u64,
        whole: Option<u64>,
        config: &FilterConfig,
    ) -> bool {
        if is_wanted {
            self.0 = None;
            return true;
        }
        let now = clock::now();
        let (since, had) = *self.0.get_or_insert((now, length));
        let rest = whole.map(|whole| whole.saturating_sub(length));
        let nearly = rest.is_some_and(|rest| {
            rest <= LITTLE_LEFT_BYTES || whole.is_some_and(|whole| rest <= whole / 8)
        });
        let longest =
            if nearly { config.fetch.outlive * NEARLY_DONE } else { config.fetch.outlive };
        let much = length - had >= config.fetch.outlive_bytes && !nearly;
        now.since(since) < longest && !much
    }
}
