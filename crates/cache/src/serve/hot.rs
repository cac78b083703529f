//! What a worker has at hand of the store: objects that are asked for again and again, with what
//! does not change from one answer to the next.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::{self, Arc};

use exchange::{Body, Headers, SharedHeaders};

use super::look::Found;
use super::present::Said;
use crate::derive::{self, CODINGS, Choice, Target};
use crate::limits::{
    CHOSEN_BYTES_MAX, FRONT_BODY_BYTES_MAX, FRONT_BYTES_MAX, FRONT_BYTES_MIN, FRONT_PART,
    FRONT_PLACES,
};
use crate::plan::Terms;
use crate::store::{Front, Kept};
use crate::{Content, Kind, Object, Response};

/// The objects that one worker has at hand of one store, for all its routes.
pub(crate) struct Shelf {
    front: RefCell<Front<Rc<Hot>>>,
}

impl Shelf {
    /// For a store of so much memory.
    pub(crate) fn new(memory_bytes: u64) -> Shelf {
        let bytes_max = (memory_bytes / FRONT_PART).clamp(FRONT_BYTES_MIN, FRONT_BYTES_MAX);
        Shelf { front: RefCell::new(Front::new(FRONT_PLACES, bytes_max as usize)) }
    }

    pub(super) fn get(&self, hash: u64, key: &[u8], epoch: u64) -> Option<Rc<Hot>> {
        self.front.borrow_mut().get(hash, key, epoch).cloned()
    }

    pub(super) fn put(&self, hash: u64, object: Arc<Object>, epoch: u64) -> Rc<Hot> {
        let hot = Rc::new(Hot::new(object));
        self.front.borrow_mut().put(hash, hot.clone(), epoch);
        hot
    }
}

/// An object, with what this worker has prepared for its answers.
pub(crate) struct Hot {
    object: Arc<Object>,
    /// Short content as the worker's own: counted without a locked instruction.
    body: Option<Rc<[u8]>>,
    /// The head of an answer, as it is in this second.
    head: RefCell<(u64, SharedHeaders)>,
    /// Its codings, as far as this worker has them at hand.
    codings: RefCell<[Weak<Hot>; CODINGS]>,
    /// How often it was the answer here.
    given: Cell<u32>,
    /// The coding that was chosen last.
    chosen: RefCell<Option<Chosen>>,
}

/// A choice, and all that it was made by.
struct Chosen {
    accept_encoding: Box<[u8]>,
    tried: u8,
    terms: sync::Weak<Terms>,
    choice: Choice,
}

impl Hot {
    fn new(object: Arc<Object>) -> Hot {
        let body = match &object.kind {
            Kind::Response(Response { content: Content::Memory(bytes), .. })
                if bytes.len() <= FRONT_BODY_BYTES_MAX =>
            {
                Some(Rc::from(&**bytes))
            }
            _ => None,
        };
        Hot {
            object,
            body,
            head: RefCell::default(),
            codings: RefCell::default(),
            given: Cell::new(0),
            chosen: RefCell::default(),
        }
    }

    pub(super) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// A coding of it that is at hand, if it is still in the store.
    pub(super) fn coding(&self, target: Target) -> Option<Rc<Hot>> {
        let made = self.codings.borrow()[derive::index(target) as usize].upgrade()?;
        (!made.object.life.is_gone()).then_some(made)
    }

    pub(super) fn set_coding(&self, target: Target, made: &Rc<Hot>) {
        self.codings.borrow_mut()[derive::index(target) as usize] = Rc::downgrade(made);
    }

    /// The choice for an Accept-Encoding: mostly the same as for the client before.
    pub(super) fn choice(
        &self,
        accept_encoding: &[u8],
        terms: &Arc<Terms>,
        choose: impl FnOnce() -> Choice,
    ) -> Choice {
        let tried = self.object.life.tried();
        let mut chosen = self.chosen.borrow_mut();
        if let Some(last) = &*chosen
            && *last.accept_encoding == *accept_encoding
            && last.tried == tried
            && last.terms.as_ptr() == Arc::as_ptr(terms)
        {
            return last.choice;
        }
        let choice = choose();
        if accept_encoding.len() <= CHOSEN_BYTES_MAX {
            let (accept_encoding, terms) = (accept_encoding.into(), Arc::downgrade(terms));
            *chosen = Some(Chosen { accept_encoding, tried, terms, choice });
        }
        choice
    }

    /// Counts an answer; how many there were.
    pub(super) fn count(&self) -> u32 {
        let given = self.given.get().wrapping_add(1);
        self.given.set(given);
        given
    }

    /// The head, made once a second.
    fn head(&self, response: &Response, said: &Said<'_>, now_secs: u64) -> Headers {
        let mut head = self.head.borrow_mut();
        if head.0 != now_secs {
            let mut headers = response.head.headers();
            said.write(&mut headers);
            *head = (now_secs, SharedHeaders::from(&headers));
        }
        head.1.headers()
    }
}

impl Kept for Rc<Hot> {
    fn object(&self) -> &Arc<Object> {
        &self.object
    }

    fn bytes(&self) -> usize {
        let own = size_of::<Hot>() + self.body.as_ref().map_or(0, |body| body.len());
        // The head twice: as it is stored, and as it is in this second.
        let kept = match &self.object.kind {
            Kind::Response(response) => response.content.len() as usize + 2 * response.head.bytes(),
            _ => 0,
        };
        own + kept + self.object.key.text().len()
    }
}

impl Found {
    /// Head and body of the whole answer.
    pub(crate) fn parts(
        &self,
        response: &Response,
        said: &Said<'_>,
        now_secs: u64,
    ) -> (Headers, Body) {
        match self {
            Found::Hot(hot) => {
                let body = match &hot.body {
                    Some(kept) => Body::Kept(kept.clone()),
                    None => response.content.body(),
                };
                (hot.head(response, said, now_secs), body)
            }
            Found::Cold(_) => {
                let mut headers = response.head.headers();
                said.write(&mut headers);
                (headers, response.content.body())
            }
        }
    }
}
