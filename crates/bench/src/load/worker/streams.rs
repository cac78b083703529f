//! The streams of an HTTP/2 connection: each response is followed by the next request at once.

use super::Worker;
use super::unsendable;
use crate::load::Sent;
use crate::load::connection::ConnectionStage;
use crate::load::http::FeedResult;

impl Worker<'_> {
    /// Counts the responses that ended and sends the next requests; returns whether the connection
    /// can be read on.
    pub(super) fn take_streams(&mut self, index: usize, fed: FeedResult) -> bool {
        self.now_ns = self.state.now_ns();
        let (now_ns, measured) = (self.now_ns, self.state.is_measured(self.now_ns));
        let refills = self.going && !self.is_at_end();
        let connection = &mut self.connections[index];
        for finished in connection.finished() {
            match finished.wrong {
                Some(kind) => self.tally.errors.count(kind),
                None if measured => {
                    self.tally.requests += 1;
                    let latency_ns = now_ns.saturating_sub(finished.since_ns);
                    self.tally.latency.saturating_record(latency_ns);
                }
                None => {}
            }
        }
        if let FeedResult::Broken { kind, .. } = fed {
            self.fail(index, kind);
            return false;
        }
        let requests = connection.stage == ConnectionStage::Requesting;
        if requests && refills {
            connection.refill(&self.state.rules, now_ns);
        }
        let sent = match connection.flush(&[]) {
            Ok(Sent::All) => Ok(()),
            Ok(Sent::Part) => connection.watch(&self.epoll, true),
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            self.fail(index, unsendable(&error));
            return false;
        }
        if requests && connection.is_idle() {
            let close = connection.is_closing();
            return self.answered(index, close);
        }
        true
    }
}
