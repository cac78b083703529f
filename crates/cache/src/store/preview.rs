//! What a purge would remove, without removing it.
//!
//! Promises the number that the purge would return if nothing else changed the store, a sample of
//! limited length, and read locks of one slice of a shard at a time. Looks at every object unless
//! an index finds what is covered, and belongs on a thread that may block.

use std::sync::Arc;

use super::memory::canonical;
use super::purge::has_tag;
use super::{Purge, Store};
use crate::Object;
use crate::limits::{PREVIEW_MAX, SLICE_OBJECTS};

/// The responses that a purge covers.
#[derive(Default)]
pub struct PurgePreview {
    /// Their number, not counting transcoded ones.
    pub responses: u64,
    /// Some of them.
    pub sample: Vec<Arc<Object>>,
}

/// A preview under construction.
struct Counter<'a> {
    preview: PurgePreview,
    most: usize,
    soft: bool,
    also: &'a dyn Fn(&Object) -> bool,
}

impl Counter<'_> {
    /// Counts an object, if the purge counts it.
    fn count(&mut self, object: &Arc<Object>) {
        let is_counted = canonical(object).is_some() && !(self.soft && object.state.is_stale());
        if is_counted && (self.also)(object) {
            self.preview.responses += 1;
            if self.preview.sample.len() < self.most {
                self.preview.sample.push(object.clone());
            }
        }
    }
}

impl Store {
    /// Returns the number of responses that a purge would remove, or make stale if `soft`, and at
    /// most `most` of them; only those that `also` accepts. Blocks.
    pub fn preview(
        &self,
        purge: &Purge<'_>,
        soft: bool,
        most: usize,
        also: &dyn Fn(&Object) -> bool,
    ) -> PurgePreview {
        let preview = PurgePreview::default();
        // A purge of everything counts stale responses again.
        let soft = soft && *purge != Purge::All;
        let mut counter = Counter { preview, most: most.min(PREVIEW_MAX), soft, also };
        match purge {
            Purge::Url(url) => {
                let others = self.searched(url);
                let urls = std::iter::once(*url).chain(others.iter().map(Vec::as_slice));
                urls.for_each(|url| self.of_url(url).iter().for_each(|one| counter.count(one)));
            }
            Purge::Tags(tags) => self.preview_tags(tags, &mut counter),
            Purge::Prefix(prefix) => {
                self.preview_slices(&mut counter, &|object| object.key.url().starts_with(prefix));
            }
            Purge::All => self.preview_slices(&mut counter, &|_| true),
        }
        counter.preview
    }

    fn preview_tags(&self, tags: &[u64], counter: &mut Counter<'_>) {
        for shard in 0..self.memory.shards() {
            let mut found: Vec<u32> = {
                let locked = self.memory.read(shard);
                tags.iter().flat_map(|tag| locked.of_tag(*tag)).collect()
            };
            found.sort_unstable();
            found.dedup();
            for slice in found.chunks(SLICE_OBJECTS) {
                let epochs = self.memory.epochs();
                let locked = self.memory.read(shard);
                let visible = slice.iter().filter_map(|at| locked.visible(*at, epochs));
                let tagged = visible.filter(|object| has_tag(object, tags));
                tagged.for_each(|object| counter.count(object));
            }
        }
    }

    fn preview_slices(&self, counter: &mut Counter<'_>, meant: &dyn Fn(&Object) -> bool) {
        for shard in 0..self.memory.shards() {
            let mut at = 0;
            loop {
                let epochs = self.memory.epochs();
                let locked = self.memory.read(shard);
                let end = locked.slots().min(at + SLICE_OBJECTS as u32);
                let visible = (at..end).filter_map(|at| locked.visible(at, epochs));
                visible.filter(|object| meant(object)).for_each(|object| counter.count(object));
                if end >= locked.slots() {
                    break;
                }
                at = end;
            }
        }
    }
}
