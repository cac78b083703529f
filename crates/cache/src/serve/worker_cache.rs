//! A worker's own table of frequently used objects, with what is prepared for their responses.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::{self, Arc};

use message::{Body, Headers, SharedHeaders};

use super::respond::StatusHeaders;
use crate::filter_config::FilterConfig;
use crate::limits::{
    HOT_ACCEPT_ENCODING_BYTES_MAX, HOT_BODY_BYTES_MAX, HOT_HITS_STEP, WORKER_CACHE_BYTES_MAX,
    WORKER_CACHE_BYTES_MIN, WORKER_CACHE_FRACTION, WORKER_CACHE_SLOTS,
};
use crate::store::{TableEntry, WorkerTable};
use crate::transcode::{self, CODINGS, CodingChoice, TargetCoding};
use crate::{Content, Object, ObjectKind, StoredResponse};

/// The frequently used objects of one store, for all routes of one worker.
pub(crate) struct WorkerCache {
    front: RefCell<WorkerTable<Rc<HotEntry>>>,
}

impl WorkerCache {
    /// Makes the table for a store of that much memory.
    pub(crate) fn new(memory_bytes: u64) -> WorkerCache {
        let bytes_max = (memory_bytes / WORKER_CACHE_FRACTION)
            .clamp(WORKER_CACHE_BYTES_MIN, WORKER_CACHE_BYTES_MAX);
        WorkerCache {
            front: RefCell::new(WorkerTable::new(WORKER_CACHE_SLOTS, bytes_max as usize)),
        }
    }

    pub(super) fn get(&self, hash: u64, key: &[u8], epoch: u64) -> Option<Rc<HotEntry>> {
        self.front.borrow_mut().get(hash, key, epoch).cloned()
    }

    pub(super) fn put(&self, hash: u64, object: Arc<Object>, epoch: u64) -> Rc<HotEntry> {
        let hot = Rc::new(HotEntry::new(object));
        self.front.borrow_mut().put(hash, hot.clone(), epoch);
        hot
    }
}

/// A stored object, with what this worker has prepared for its responses.
pub(crate) struct HotEntry {
    object: Arc<Object>,
    /// A copy of short content: cloning it takes no atomic instruction.
    body: Option<Rc<[u8]>>,
    /// The response headers, valid for one second.
    head: RefCell<(u64, SharedHeaders)>,
    /// Its transcoded responses that this worker has in the table.
    codings: RefCell<[Weak<HotEntry>; CODINGS]>,
    /// Responses served from it.
    given: Cell<u32>,
    /// Lookups that found it.
    found: Cell<u32>,
    /// The coding that was chosen last.
    chosen: RefCell<Option<LastChoice>>,
}

/// A choice of coding, and all that it depends on.
struct LastChoice {
    accept_encoding: Box<[u8]>,
    tried: u8,
    config: sync::Weak<FilterConfig>,
    choice: CodingChoice,
}

impl HotEntry {
    fn new(object: Arc<Object>) -> HotEntry {
        let body =
            match &object.kind {
                ObjectKind::Response(StoredResponse {
                    content: Content::Memory(bytes), ..
                }) if bytes.len() <= HOT_BODY_BYTES_MAX => Some(Rc::from(&**bytes)),
                _ => None,
            };
        HotEntry {
            object,
            body,
            head: RefCell::default(),
            codings: RefCell::default(),
            given: Cell::new(0),
            found: Cell::new(0),
            chosen: RefCell::default(),
        }
    }

    /// Counts a use. The object is written for the first ones and then in steps, because other
    /// workers read it.
    pub(crate) fn count_use(&self) {
        self.object.state.count_use();
        let found = self.found.get().wrapping_add(1);
        self.found.set(found);
        if found <= HOT_HITS_STEP {
            self.object.add_hits(1);
        } else if found.is_multiple_of(HOT_HITS_STEP) {
            self.object.add_hits(HOT_HITS_STEP);
        }
    }

    /// A coding in the table, if it is still in the store.
    pub(crate) fn coding(&self, target: TargetCoding) -> Option<Rc<HotEntry>> {
        let made = self.codings.borrow()[transcode::index(target) as usize].upgrade()?;
        (!made.object.state.is_removed()).then_some(made)
    }

    pub(crate) fn set_coding(&self, target: TargetCoding, made: &Rc<HotEntry>) {
        self.codings.borrow_mut()[transcode::index(target) as usize] = Rc::downgrade(made);
    }

    /// The choice for an Accept-Encoding: usually that of the previous request.
    pub(crate) fn choice(
        &self,
        accept_encoding: &[u8],
        config: &Arc<FilterConfig>,
        choose: impl FnOnce() -> CodingChoice,
    ) -> CodingChoice {
        let tried = self.object.state.tried_codings();
        let mut chosen = self.chosen.borrow_mut();
        if let Some(last) = &*chosen
            && *last.accept_encoding == *accept_encoding
            && last.tried == tried
            && last.config.as_ptr() == Arc::as_ptr(config)
        {
            return last.choice;
        }
        let choice = choose();
        if accept_encoding.len() <= HOT_ACCEPT_ENCODING_BYTES_MAX {
            let (accept_encoding, config) = (accept_encoding.into(), Arc::downgrade(config));
            *chosen = Some(LastChoice { accept_encoding, tried, config, choice });
        }
        choice
    }

    /// Counts a response; returns the number so far.
    pub(crate) fn count(&self) -> u32 {
        let given = self.given.get().wrapping_add(1);
        self.given.set(given);
        given
    }

    /// The response headers, made once a second.
    fn head(
        &self,
        response: &StoredResponse,
        status_headers: &StatusHeaders<'_>,
        now_secs: u64,
    ) -> Headers {
        let mut head = self.head.borrow_mut();
        if head.0 != now_secs {
            let mut headers = response.head.headers();
            status_headers.write(&mut headers);
            *head = (now_secs, SharedHeaders::from(&headers));
        }
        head.1.headers()
    }
}

impl Drop for HotEntry {
    fn drop(&mut self) {
        let found = self.found.get();
        if found > HOT_HITS_STEP {
            self.object.add_hits(found % HOT_HITS_STEP);
        }
    }
}

impl TableEntry for Rc<HotEntry> {
    fn object(&self) -> &Arc<Object> {
        &self.object
    }

    fn bytes(&self) -> usize {
        let own = size_of::<HotEntry>() + self.body.as_ref().map_or(0, |body| body.len());
        // The headers exist twice: as stored, and as sent in this second.
        let kept = match &self.object.kind {
            ObjectKind::Response(response) => {
                response.content.len() as usize + 2 * response.head.bytes()
            }
            _ => 0,
        };
        own + kept + self.object.key.text().len()
    }
}

/// A stored object, from the worker's table or from the store.
pub(crate) enum StoredEntry {
    Hot(Rc<HotEntry>),
    Cold(Arc<Object>),
}

impl StoredEntry {
    pub(crate) fn object(&self) -> &Arc<Object> {
        match self {
            StoredEntry::Hot(hot) => hot.object(),
            StoredEntry::Cold(object) => object,
        }
    }
    /// Headers and body of the whole response.
    pub(crate) fn parts(
        &self,
        response: &StoredResponse,
        status_headers: &StatusHeaders<'_>,
        now_secs: u64,
    ) -> (Headers, Body) {
        match self {
            StoredEntry::Hot(hot) => {
                let body = match &hot.body {
                    Some(kept) => Body::Kept(kept.clone()),
                    None => response.content.body(),
                };
                (hot.head(response, status_headers, now_secs), body)
            }
            StoredEntry::Cold(_) => {
                let mut headers = response.head.headers();
                status_headers.write(&mut headers);
                (headers, response.content.body())
            }
        }
    }
}
