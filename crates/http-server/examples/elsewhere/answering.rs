//! The thread: plain blocking code, which may take its time and knows no event loop.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};

use message::{Fault, FaultKind, Frame, Headers};
use offload::{Incoming, OffloadedRequest, ReceiverDropped, wait};

/// Starts the thread; it ends when the last sender of its queue is dropped.
pub(crate) fn start(waiting_max: usize) -> io::Result<SyncSender<OffloadedRequest>> {
    let (queue, exchanges) = sync_channel(waiting_max);
    let serving = move || exchanges.iter().for_each(answer);
    std::thread::Builder::new().name("answering".to_owned()).spawn(serving)?;
    Ok(queue)
}

fn answer(handed: OffloadedRequest) {
    if handed.head.target.path() == "/count" {
        // A request without a client is not a reason to end the thread.
        let _ = count(handed);
        return;
    }
    let OffloadedRequest { head, mut body, answer } = handed;
    match words(&mut body) {
        Ok(words) => {
            let text = format!("{}: {words} words\n", head.target.path());
            answer.respond(200, plain_text(), text);
        }
        Err(fault) => answer.fail(fault),
    }
}

/// Counts the words of a body of any length, with a few pieces of it in memory.
fn words(body: &mut Incoming) -> Result<usize, Fault> {
    let (mut words, mut inside) = (0, false);
    while let Some(frame) = wait(body.frame()) {
        if let Frame::Data(data) = frame? {
            for byte in data {
                let was_inside = std::mem::replace(&mut inside, !byte.is_ascii_whitespace());
                words += usize::from(inside && !was_inside);
            }
        }
    }
    Ok(words)
}

/// `/count?to=n`: a line for each number, sent as fast as the client reads them.
fn count(handed: OffloadedRequest) -> Result<(), ReceiverDropped> {
    let query = handed.head.target.query().unwrap_or_default();
    let named = query.strip_prefix(b"to=").and_then(|digits| std::str::from_utf8(digits).ok());
    let Some(to) = named.and_then(|digits| digits.parse::<u64>().ok()) else {
        handed.answer.fail(Fault::new(FaultKind::InvalidTarget, "to= has to be a number"));
        return Ok(());
    };
    let mut sending = handed.answer.stream(200, plain_text(), None);
    let mut page = String::new();
    for number in 1..=to {
        page.push_str(&number.to_string());
        page.push('\n');
        if page.len() > 4096 || number == to {
            wait(sending.send(std::mem::take(&mut page)))?;
        }
    }
    let mut trailers = Headers::new();
    trailers.append("x-counted", to.to_string());
    sending.finish(Some(trailers));
    Ok(())
}

fn plain_text() -> Headers {
    let mut headers = Headers::new();
    headers.append("content-type", "text/plain; charset=utf-8");
    headers
}
