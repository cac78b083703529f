//! The waits of one request or session: `receive` and `send` of several tasks at the same time.
//!
//! What they wait for wakes the last of them only. Promises that whoever ends lets the others look
//! in its stead, so that none of them waits for a waking that another one had.

use super::wait::What;

#[derive(Default)]
pub(super) struct Waits {
    waits: Vec<(What, u64)>,
    /// Which one is woken, of those for an event and of those for room.
    woken: [Option<u64>; 2],
}

impl Waits {
    pub(super) fn began(&mut self, what: What, number: u64) {
        self.waits.push((what, number));
        self.woken[what as usize] = Some(number);
    }

    /// A wait has ended, or nobody waits any more; those that are to look in its stead.
    pub(super) fn ended(&mut self, what: What, number: u64) -> Vec<u64> {
        self.waits.retain(|(_, known)| *known != number);
        if self.woken[what as usize] != Some(number) {
            return Vec::new();
        }
        self.woken[what as usize] = None;
        let others = self.waits.iter().filter(|(known, _)| *known == what);
        others.map(|(_, number)| *number).collect()
    }

    /// There is nothing left to wait for: all that are to hear of it.
    pub(super) fn end(&mut self) -> Vec<u64> {
        self.woken = [None; 2];
        std::mem::take(&mut self.waits).into_iter().map(|(_, number)| number).collect()
    }
}
