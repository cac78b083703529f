//! Commands about when the time of a key ends.

use super::{Call, Outcome, Refusal};
use crate::map::NEVER;

impl Call<'_> {
    /// The moment that lies as many units from now as the word at `at` says; a unit is so many
    /// milliseconds.
    pub(super) fn until(&self, at: usize, unit_ms: u64) -> Result<u64, Refusal> {
        let units = u64::try_from(self.number(at)?).ok().filter(|&units| units > 0);
        let units = units.ok_or("ERR invalid expire time")?;
        // A time that nobody lives to see is none.
        Ok(self.now_ms.saturating_add(units.saturating_mul(unit_ms)))
    }

    /// Time that is left to a key: -1 for one without an end, -2 for one that is not there.
    fn left(&mut self, unit_ms: u64) -> Outcome {
        let key = self.key(1)?;
        let found = self.inside.map.get(key, self.now_ms);
        let left = found.map(|(_, until_ms)| (until_ms, until_ms.saturating_sub(self.now_ms)));
        match left {
            None => self.out.integer(-2),
            Some((NEVER, _)) => self.out.integer(-1),
            Some((_, ms)) => {
                let units = ms.div_ceil(unit_ms);
                self.out.integer(i64::try_from(units).unwrap_or(i64::MAX));
            }
        }
        Ok(())
    }

    fn end_at(&mut self, unit_ms: u64) -> Outcome {
        let key = self.key(1)?;
        // As Redis has it: a time that is over is the end of the key.
        let found = if self.number(2)? <= 0 {
            self.inside.map.remove(key, self.now_ms)
        } else {
            let until_ms = self.until(2, unit_ms)?;
            self.inside.map.set_deadline(key, until_ms, self.now_ms)
        };
        self.out.integer(i64::from(found));
        Ok(())
    }
}

pub(super) fn expire(call: &mut Call<'_>) -> Outcome {
    call.end_at(1000)
}

pub(super) fn expire_ms(call: &mut Call<'_>) -> Outcome {
    call.end_at(1)
}

/// Says whether there is such a key, with an end to its time or without.
pub(super) fn persist(call: &mut Call<'_>) -> Outcome {
    let key = call.key(1)?;
    let found = call.inside.map.set_deadline(key, NEVER, call.now_ms);
    call.out.integer(i64::from(found));
    Ok(())
}

pub(super) fn left(call: &mut Call<'_>) -> Outcome {
    call.left(1000)
}

pub(super) fn left_ms(call: &mut Call<'_>) -> Outcome {
    call.left(1)
}
