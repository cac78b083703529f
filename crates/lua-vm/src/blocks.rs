//! A list in blocks, for records of which there may be many.
//!
//! A `Vec` that doubles leaves blocks of all its former sizes to the allocator, together as much
//! memory as its records take. Here a record stays where it is, and growing adds a block.

use std::ops::{Index, IndexMut};

/// Records of a block.
const RECORDS: usize = 512;

pub(crate) struct Blocks<T> {
    blocks: Vec<Vec<T>>,
}

impl<T> Default for Blocks<T> {
    fn default() -> Blocks<T> {
        Blocks { blocks: Vec::new() }
    }
}

impl<T> Blocks<T> {
    pub(crate) fn len(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * RECORDS + last.len())
    }

    pub(crate) fn push(&mut self, record: T) {
        match self.blocks.last_mut().filter(|last| last.len() < RECORDS) {
            Some(last) => last.push(record),
            None => {
                let mut block = Vec::with_capacity(RECORDS);
                block.push(record);
                self.blocks.push(block);
            }
        }
    }

    /// Removes the last record, and its block with the last one in it.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let last = self.blocks.last_mut()?;
        let record = last.pop();
        if last.is_empty() {
            self.blocks.pop();
        }
        record
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.blocks.get(index / RECORDS)?.get(index % RECORDS)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.blocks.get_mut(index / RECORDS)?.get_mut(index % RECORDS)
    }
}

impl<T> Index<usize> for Blocks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.blocks[index / RECORDS][index % RECORDS]
    }
}

impl<T> IndexMut<usize> for Blocks<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.blocks[index / RECORDS][index % RECORDS]
    }
}

#[cfg(test)]
mod tests {
    use super::{Blocks, RECORDS};

    #[test]
    fn records_are_found_in_every_block() {
        let mut blocks = Blocks::default();
        for number in 0..RECORDS * 2 + 1 {
            assert_eq!(blocks.get(number), None);
            blocks.push(number);
            assert_eq!((blocks.len(), blocks[number]), (number + 1, number));
        }
        blocks[RECORDS] = 7;
        assert_eq!(blocks.get_mut(RECORDS), Some(&mut 7));
        assert_eq!((blocks[RECORDS - 1], blocks[RECORDS + 1]), (RECORDS - 1, RECORDS + 1));
    }

    #[test]
    fn a_block_is_freed_with_its_last_record() {
        let mut blocks = Blocks::default();
        for number in 0..=RECORDS {
            blocks.push(number);
        }
        assert_eq!((blocks.pop(), blocks.len(), blocks.blocks.len()), (Some(RECORDS), RECORDS, 1));
        while blocks.pop().is_some() {}
        assert_eq!((blocks.len(), blocks.blocks.len()), (0, 0));
        blocks.push(1);
        assert_eq!(blocks[0], 1);
    }
}
