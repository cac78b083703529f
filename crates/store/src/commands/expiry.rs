//! Commands about the expiry of keys.

use super::{Call, CommandError, CommandResult};
use crate::map::NEVER;

impl Call<'_> {
    /// The deadline that lies as many units from now as the argument at `at` says.
    pub(super) fn deadline_ms(&self, at: usize, unit_ms: u64) -> Result<u64, CommandError> {
        let units = u64::try_from(self.number(at)?).ok().filter(|&units| units > 0);
        let units = units.ok_or("ERR invalid expire time")?;
        // A deadline beyond the range of the clock never comes.
        Ok(self.now_ms.saturating_add(units.saturating_mul(unit_ms)))
    }

    /// Replies with the time to live: -1 for a key without expiry, -2 for a missing key.
    fn time_to_live(&mut self, unit_ms: u64) -> CommandResult {
        let key = self.key(1)?;
        let found = self.state.map.get(key, self.now_ms);
        let remaining = found.map(|(_, until_ms)| (until_ms, until_ms.saturating_sub(self.now_ms)));
        match remaining {
            None => self.out.integer(-2),
            Some((NEVER, _)) => self.out.integer(-1),
            Some((_, ms)) => {
                let units = ms.div_ceil(unit_ms);
                self.out.integer(i64::try_from(units).unwrap_or(i64::MAX));
            }
        }
        Ok(())
    }

    fn set_expiry(&mut self, unit_ms: u64) -> CommandResult {
        let key = self.key(1)?;
        // As in Redis, a time in the past deletes the key.
        let found = if self.number(2)? <= 0 {
            self.state.map.remove(key, self.now_ms)
        } else {
            let until_ms = self.deadline_ms(2, unit_ms)?;
            self.state.map.set_deadline(key, until_ms, self.now_ms)
        };
        self.out.integer(i64::from(found));
        Ok(())
    }
}

pub(super) fn expire(call: &mut Call<'_>) -> CommandResult {
    call.set_expiry(1000)
}

pub(super) fn pexpire(call: &mut Call<'_>) -> CommandResult {
    call.set_expiry(1)
}

/// Replies whether the key exists, with or without an expiry.
pub(super) fn persist(call: &mut Call<'_>) -> CommandResult {
    let key = call.key(1)?;
    let found = call.state.map.set_deadline(key, NEVER, call.now_ms);
    call.out.integer(i64::from(found));
    Ok(())
}

pub(super) fn ttl(call: &mut Call<'_>) -> CommandResult {
    call.time_to_live(1000)
}

pub(super) fn pttl(call: &mut Call<'_>) -> CommandResult {
    call.time_to_live(1)
}
