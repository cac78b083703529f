//! What a server that follows the log knows, and until when it may serve from its caches.

use std::time::Duration;

use super::{LogPosition, PurgeEntry};

/// What a server knows about the log. Times are milliseconds of its own monotonic clock.
///
/// The log has a list of servers, each with the entry up to which it has applied everything. A
/// purge is confirmed when all of them have applied it. A server is on the list for a fixed time
/// after each registration; the follower lets it serve from its caches for a shorter one, and only
/// after everything was applied that was in the log when it was put on the list.
#[derive(Debug)]
pub struct Follower {
    alone_ms: u64,
    position: Option<LogPosition>,
    /// When the last registration that succeeded was sent.
    registered_ms: Option<u64>,
    /// True if the whole log was applied after this server was put on the list, where it has been
    /// since.
    is_current: bool,
}

/// An entry as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    pub number: u64,
    /// Distinguishes it from all others.
    pub mark: String,
    /// `None` if this version cannot read it.
    pub purge: Option<PurgeEntry>,
}

/// What the log had after a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRead {
    /// The entries after the position, in order.
    pub entries: Vec<LogEntry>,
    /// The position after these.
    pub position: LogPosition,
    /// The number of the last entry up to there.
    pub last: u64,
    /// Entries after the position are missing, or there was no position.
    pub has_gap: bool,
    /// The log has further entries.
    pub has_more: bool,
}

impl Follower {
    /// A server that may serve from its caches for `alone` after a registration.
    pub fn new(alone: Duration) -> Follower {
        Follower {
            alone_ms: u64::try_from(alone.as_millis()).unwrap_or(u64::MAX),
            position: None,
            registered_ms: None,
            is_current: false,
        }
    }

    /// Everything up to here was applied.
    pub fn position(&self) -> Option<&LogPosition> {
        self.position.as_ref()
    }

    /// Continues from an earlier position: a cache has missed what followed it.
    pub fn rewind(&mut self, position: LogPosition) {
        let is_earlier = self
            .position
            .as_ref()
            .is_none_or(|known| known.log == position.log && position.number < known.number);
        if is_earlier {
            self.position = Some(position);
        }
    }

    /// Notes that this server was put on the list, or stays there, by a request sent at `sent_ms`.
    /// To be called before what is read afterwards is passed to [`Follower::applied`].
    pub fn registered(&mut self, sent_ms: u64) {
        // It may not have been on the list for a while: purges were confirmed without it.
        self.is_current &= self.may_serve(sent_ms);
        self.registered_ms = Some(sent_ms.max(self.registered_ms.unwrap_or(0)));
    }

    /// Notes that this server is not on the list any more.
    pub fn forgotten(&mut self) {
        self.registered_ms = None;
        self.is_current = false;
    }

    /// Notes that what was read after a registration was applied.
    pub fn applied(&mut self, position: LogPosition, has_more: bool) {
        self.position = Some(position);
        self.is_current |= !has_more && self.registered_ms.is_some();
    }

    /// True if everything was applied that was in the log when this server was put on the list.
    pub fn is_current(&self) -> bool {
        self.is_current
    }

    /// Until when this server may serve from its caches: 0 for not at all.
    pub fn serves_until_ms(&self) -> u64 {
        let registered = self.registered_ms.filter(|_| self.is_current);
        registered.map_or(0, |registered| registered.saturating_add(self.alone_ms))
    }

    fn may_serve(&self, now_ms: u64) -> bool {
        now_ms < self.serves_until_ms()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Follower, LogPosition};

    fn at(number: u64) -> LogPosition {
        LogPosition { log: "test".to_owned(), number, mark: String::new() }
    }

    #[test]
    fn a_server_serves_when_it_is_known_and_has_applied_everything() {
        let mut follower = Follower::new(Duration::from_millis(100));
        follower.applied(at(1), false);
        assert_eq!(follower.serves_until_ms(), 0, "the others do not wait for it");
        follower.registered(10);
        assert_eq!(follower.serves_until_ms(), 0, "what was read was read before");
        follower.applied(at(2), true);
        assert_eq!(follower.serves_until_ms(), 0, "there is more");
        follower.applied(at(3), false);
        assert_eq!(follower.serves_until_ms(), 110);
        follower.registered(60);
        assert_eq!(follower.serves_until_ms(), 160);
        // A reply that was late changes nothing.
        follower.registered(50);
        assert_eq!(follower.serves_until_ms(), 160);
    }

    #[test]
    fn a_server_that_was_away_for_too_long_reads_the_log_first() {
        let mut follower = Follower::new(Duration::from_millis(100));
        follower.registered(0);
        follower.applied(at(1), false);
        follower.registered(100);
        assert_eq!(follower.serves_until_ms(), 0);
        follower.applied(at(1), false);
        assert_eq!(follower.serves_until_ms(), 200);
        follower.forgotten();
        assert_eq!(follower.serves_until_ms(), 0);
        follower.applied(at(2), false);
        assert_eq!((follower.serves_until_ms(), follower.position()), (0, Some(&at(2))));
    }

    #[test]
    fn a_cache_from_earlier_is_followed_from_its_position() {
        let mut follower = Follower::new(Duration::from_millis(100));
        follower.rewind(at(5));
        follower.rewind(at(3));
        follower.rewind(at(4));
        assert_eq!(follower.position(), Some(&at(3)));
        follower.rewind(LogPosition { log: "other".to_owned(), ..at(1) });
        assert_eq!(follower.position(), Some(&at(3)));
    }
}
