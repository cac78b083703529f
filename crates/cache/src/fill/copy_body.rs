//! Content on its way from the origin into a growing body.
//!
//! Goes on while anybody reads it or may still join, and for a while afterwards. What turns out too
//! long to be kept, or finds no room, goes on as a window for those who read it, and is nobody
//! else's.

use std::time::Duration;

use exchange::{Body, Fault, FaultKind, Frame, SharedBodyWriter};
use net::clock::{self, Moment};

use super::StreamingResponse;
use crate::FilterConfig;
use crate::single_flight::{FetchResult, Leader};

/// What is kept of each piece beside its bytes.
const PIECE_BYTES: u64 = 64;
/// What is too long is kept no further ahead of the slowest who reads it.
const WINDOW_BYTES: u64 = 1024 * 1024;
/// So little is unwanted that it would be a pity to serve_stored up.
const LITTLE_LEFT_BYTES: u64 = 64 * 1024;
/// How often it is seen whether somebody still reads, at most.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(100);
/// How much longer than usual a fetch may go on for that.
const NEARLY_DONE: u32 = 4;

/// What became of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyResult {
    Complete,
    /// It is longer than may be kept, whether or not those who read it had all of it.
    TooLong,
    /// It was cut off, or nobody run_while_wanted it any more.
    Failed,
}

/// SharedBody bodies count their pieces: this bound lets those of usual size be as long as allowed.
pub(super) fn shared_body_bytes_max(object_bytes_max: u64) -> u64 {
    object_bytes_max.saturating_add(object_bytes_max / 8).saturating_add(LITTLE_LEFT_BYTES)
}

/// Pours until the end. Nobody joins the fetch any more if it is not whole.
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
        let run_while_wanted = writer.readers() + leader.followers() > 0;
        if !unwanted.continues(run_while_wanted, length, streaming.length, config) {
            leader.close();
            writer.fail(Fault::client_gone("nobody wants what is fetched any more"));
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

/// The rest of what is too long, for those who read it.
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
    /// Idle received for a while: somebody may have unwanted meanwhile.
    Idle,
}

async fn next(body: &mut Body, outlive: Duration) -> NextFrame {
    // A frame that has been waited for in vain is not lost: bodies are polled.
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

/// Since when, and since how much of it, nobody has run_while_wanted it.
#[derive(Default)]
struct UnwantedSince(Option<(Moment, u64)>);

impl UnwantedSince {
    fn continues(
        &mut self,
        run_while_wanted: bool,
        length: u64,
        whole: Option<u64>,
        config: &FilterConfig,
    ) -> bool {
        if run_while_wanted {
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
