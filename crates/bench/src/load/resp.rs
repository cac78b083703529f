//! Checks every byte of the responses to `PING`.
//!
//! Owns the only correct response, `+PONG` and a line end, and the count of outstanding ones. Never
//! allocates.

use super::http::FeedResult;
use super::{Command, Kind, PIPELINE_MAX};

const PONG: &[u8] = b"+PONG\r\n";

/// As many responses as can be outstanding, so that any piece of them is one comparison.
#[derive(Debug)]
pub(super) struct Rules {
    pongs: Vec<u8>,
}

impl Rules {
    pub(super) fn new() -> Self {
        Self { pongs: PONG.repeat(PIPELINE_MAX as usize) }
    }
}

/// The commands of one write.
pub(crate) fn request(command: Command, pipeline: u32) -> Vec<u8> {
    let one: &[u8] = match command {
        Command::Inline => b"PING\r\n",
        Command::MultiBulk => b"*1\r\n$4\r\nPING\r\n",
    };
    one.repeat(pipeline as usize)
}

/// The partial responses of one connection.
#[derive(Debug, Default)]
pub(super) struct ReplyCounter {
    outstanding: u32,
    /// The number of bytes of the next response that have arrived.
    begun: usize,
}

impl ReplyCounter {
    pub(super) fn expect(&mut self, answers: u32) {
        self.outstanding = answers;
        self.begun = 0;
    }

    pub(super) fn feed(&mut self, rules: &Rules, bytes: &[u8]) -> FeedResult {
        let expected = self.outstanding as usize * PONG.len() - self.begun;
        let wanted = bytes.len().min(expected);
        let pattern = &rules.pongs[self.begun..self.begun + wanted];
        if pattern != &bytes[..wanted] {
            return self.different(pattern, bytes);
        }
        let right = ((self.begun + wanted) / PONG.len()) as u32;
        if bytes.len() > expected {
            return FeedResult::Broken { right, kind: Kind::Framing };
        }
        self.begun = (self.begun + wanted) % PONG.len();
        self.outstanding -= right;
        match self.outstanding {
            0 => FeedResult::Last { right, wrong: None, close: false },
            _ => FeedResult::More { right },
        }
    }

    fn different(&self, pattern: &[u8], bytes: &[u8]) -> FeedResult {
        let same = pattern.iter().zip(bytes).take_while(|(a, b)| a == b).count();
        let at = self.begun + same;
        let right = (at / PONG.len()) as u32;
        let refused = at.is_multiple_of(PONG.len()) && bytes[same] == b'-';
        FeedResult::Broken { right, kind: if refused { Kind::Status } else { Kind::Framing } }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Kind};
    use super::{FeedResult, ReplyCounter, Rules, request};

    fn fed(answers: u32, pieces: &[&[u8]]) -> Vec<FeedResult> {
        let rules = Rules::new();
        let mut state = ReplyCounter::default();
        state.expect(answers);
        pieces.iter().map(|piece| state.feed(&rules, piece)).collect()
    }

    #[test]
    fn commands_are_as_redis_reads_them() {
        assert_eq!(request(Command::Inline, 2), b"PING\r\nPING\r\n");
        assert_eq!(request(Command::MultiBulk, 1), b"*1\r\n$4\r\nPING\r\n");
    }

    #[test]
    fn responses_are_counted_wherever_they_are_cut() {
        let stream = b"+PONG\r\n+PONG\r\n+PONG\r\n";
        for cut in 1..stream.len() {
            let found = fed(3, &[&stream[..cut], &stream[cut..]]);
            let right = (cut / 7) as u32;
            assert_eq!(found[0], FeedResult::More { right }, "cut at {cut}");
            let right = 3 - right;
            assert_eq!(
                found[1],
                FeedResult::Last { right, wrong: None, close: false },
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn wrong_replies_are_distinguished() {
        let broken = |right, kind| vec![FeedResult::Broken { right, kind }];
        assert_eq!(fed(1, &[b"+PONG\r\n+"]), broken(1, Kind::Framing));
        assert_eq!(fed(1, &[b"+PING\r\n"]), broken(0, Kind::Framing));
        assert_eq!(fed(2, &[b"+PONG\r\n-ERR no\r\n"]), broken(1, Kind::Status));
        assert_eq!(fed(2, &[b"+PONG\n\n"]), broken(0, Kind::Framing));
        assert_eq!(fed(2, &[b"+PON-"]), broken(0, Kind::Framing));
    }
}
