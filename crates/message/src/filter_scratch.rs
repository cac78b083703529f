//! A word that each filter may store in a request between its two hooks.
//!
//! A filter is one instance for many requests, so its results for one of them are stored here.
//! Costs nothing if no filter stores a word.

/// The words, each found by the filter instance that left it.
#[derive(Clone, Debug, Default)]
pub struct FilterScratch {
    /// Inline, because most requests have one, which must not cost an allocation.
    first: Option<(usize, u64)>,
    more: Vec<(usize, u64)>,
}

impl FilterScratch {
    /// Leaves a word, in place of the one left before.
    pub fn set<F>(&mut self, owner: &F, word: u64) {
        let owner = std::ptr::from_ref(owner).addr();
        if let Some((_, kept)) =
            self.first.iter_mut().chain(&mut self.more).find(|(known, _)| *known == owner)
        {
            *kept = word;
        } else if self.first.is_none() {
            self.first = Some((owner, word));
        } else {
            self.more.push((owner, word));
        }
    }

    /// The word that this instance left.
    pub fn get<F>(&self, owner: &F) -> Option<u64> {
        let owner = std::ptr::from_ref(owner).addr();
        let mut all = self.first.iter().chain(&self.more);
        all.find(|(known, _)| *known == owner).map(|(_, word)| *word)
    }
}

#[cfg(test)]
mod tests {
    use super::FilterScratch;

    #[test]
    fn each_owner_finds_its_own_word() {
        let (one, other) = (String::from("same"), String::from("same"));
        let mut marks = FilterScratch::default();
        marks.set(&one, 1);
        assert_eq!((marks.get(&one), marks.get(&other)), (Some(1), None));
        marks.set(&other, 2);
        marks.set(&one, 3);
        assert_eq!((marks.get(&one), marks.get(&other)), (Some(3), Some(2)));
    }
}
