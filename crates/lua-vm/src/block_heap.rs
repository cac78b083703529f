//! A priority queue in blocks: its smallest record first.
//!
//! As [`Blocks`], it leaves no blocks of former sizes to the allocator, which `BinaryHeap` does,
//! and it returns memory when it shrinks.

use crate::blocks::Blocks;

/// A binary heap: no record is smaller than its parent, that of `at` being `(at - 1) / 2`.
pub(crate) struct BlockHeap<T> {
    records: Blocks<T>,
}

impl<T> Default for BlockHeap<T> {
    fn default() -> BlockHeap<T> {
        BlockHeap { records: Blocks::default() }
    }
}

impl<T: Copy + Ord> BlockHeap<T> {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// The smallest record.
    #[inline]
    pub(crate) fn peek(&self) -> Option<T> {
        self.records.get(0).copied()
    }

    pub(crate) fn push(&mut self, record: T) {
        let mut at = self.records.len();
        self.records.push(record);
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.records[parent] <= record {
                break;
            }
            self.records[at] = self.records[parent];
            at = parent;
        }
        self.records[at] = record;
    }

    /// Removes the smallest record.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let first = self.peek()?;
        let last = self.records.pop()?;
        if self.len() > 0 {
            self.sink(0, last);
        }
        Some(first)
    }

    /// Removes the records for which `keeps` is false.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(&T) -> bool) {
        let mut kept = 0;
        for at in 0..self.len() {
            let record = self.records[at];
            if keeps(&record) {
                self.records[kept] = record;
                kept += 1;
            }
        }
        while self.len() > kept {
            self.records.pop();
        }
        for at in (0..kept / 2).rev() {
            self.sink(at, self.records[at]);
        }
    }

    /// Puts a record at `at`, or below it if a child is smaller.
    fn sink(&mut self, mut at: usize, record: T) {
        let count = self.len();
        loop {
            let mut child = 2 * at + 1;
            if child >= count {
                break;
            }
            if child + 1 < count && self.records[child + 1] < self.records[child] {
                child += 1;
            }
            if record <= self.records[child] {
                break;
            }
            self.records[at] = self.records[child];
            at = child;
        }
        self.records[at] = record;
    }
}

#[cfg(test)]
mod tests {
    use super::BlockHeap;

    /// Numbers in an order that repeats none: multiples of a number that is prime to 2003.
    fn shuffled() -> impl Iterator<Item = u64> {
        (0..2003).map(|number| number * 1201 % 2003)
    }

    fn emptied(mut heap: BlockHeap<u64>) -> Vec<u64> {
        std::iter::from_fn(|| heap.pop()).collect()
    }

    #[test]
    fn records_come_out_in_their_order() {
        let mut heap = BlockHeap::default();
        shuffled().for_each(|number| heap.push(number));
        assert_eq!((heap.len(), heap.peek()), (2003, Some(0)));
        // Some leave before others arrive.
        let first: Vec<u64> = (0..1000).filter_map(|_| heap.pop()).collect();
        assert_eq!(first, (0..1000).collect::<Vec<u64>>());
        (0..1000).rev().for_each(|number| heap.push(number));
        assert_eq!(emptied(heap), (0..2003).collect::<Vec<u64>>());
    }

    #[test]
    fn those_that_are_kept_stay_in_order() {
        let mut heap = BlockHeap::default();
        shuffled().for_each(|number| heap.push(number));
        heap.retain(|number| number % 3 == 0);
        assert_eq!(emptied(heap), (0..2003).step_by(3).collect::<Vec<u64>>());
        let mut none = BlockHeap::default();
        none.push(1);
        none.retain(|_| false);
        assert_eq!((none.len(), none.peek(), none.pop()), (0, None, None));
    }
}
