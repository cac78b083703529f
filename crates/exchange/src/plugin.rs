//! How rooms plug into a configuration: kinds, plans, and the context a worker builds them in.
//!
//! Settings flow one way: text → Plan → constructors. A room exports a table of kinds; `config`
//! reads each entry into a frozen plan (`Send + Sync`, shared by all workers); every worker builds
//! its own instance from it, which need not be `Send` and takes no lock. State that must outlive a
//! Plan (pools, health, buckets) is asked of the context by identity.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use settings::{Node, Reader, Schema, SchemaBuilder};
use telemetry::Telemetry;

use crate::{Handler, Stage};

/// One entry of a route's `filters`, checked and frozen.
pub trait FilterPlan: Send + Sync {
    fn name(&self) -> &'static str;
    fn build(&self, worker: &WorkerContext) -> Stage;
    /// The same for a route of that name: for what keeps things that routes must not share.
    fn build_on(&self, _route: &str, worker: &WorkerContext) -> Stage {
        self.build(worker)
    }
    /// The plan itself, for the room that made it to find again.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
    /// One line for `explain`, with no secret in it.
    fn describe(&self) -> String {
        String::new()
    }
    /// What its own files say of upstreams.
    fn mentions(&self) -> Option<&Mentions> {
        None
    }
    /// True if it changes responses that the server generates ([`crate::Filter::on_generated`]).
    /// Those of `defaults` then also change responses to requests without a route.
    fn changes_generated(&self) -> bool {
        false
    }
    /// Whether it rejects clients that do not prove who they are: a route with such a filter is a
    /// protected one.
    fn authenticates(&self) -> bool {
        false
    }
    /// Query parameters it takes secrets from: the access log masks their values on every route.
    fn secret_queries(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// A route's `handler`, checked and frozen.
pub trait HandlerPlan: Send + Sync {
    fn name(&self) -> &'static str;
    fn build(&self, worker: &WorkerContext) -> Rc<dyn Handler>;
    fn describe(&self) -> String {
        String::new()
    }
    /// The plan itself, for the room that made it to find again.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
    /// The upstream it names, with the place where it does: checked against `upstreams`.
    fn upstream(&self) -> Option<&settings::Spanned<String>> {
        None
    }
    /// What its own files say of upstreams.
    fn mentions(&self) -> Option<&Mentions> {
        None
    }
}

/// What the files of a plan say of upstreams: checked against `upstreams` like what the
/// configuration itself says.
#[derive(Clone, Debug, Default)]
pub struct Mentions {
    /// Named where only the name of an upstream can stand.
    pub upstreams: Vec<Mention>,
    /// Every text in the files: one that is the name of an upstream may be a use of it.
    pub texts: BTreeSet<String>,
}

/// An upstream that a file names.
#[derive(Clone, Debug)]
pub struct Mention {
    pub upstream: String,
    /// Where the configuration names the file.
    pub span: settings::Span,
    /// File and line.
    pub place: String,
}

/// A filter that the configuration may name.
pub struct FilterKind {
    pub name: &'static str,
    pub schema: fn(&mut SchemaBuilder) -> Schema,
    pub read: fn(&Node, &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>>,
}

/// A handler that the configuration may name.
pub struct HandlerKind {
    pub name: &'static str,
    pub schema: fn(&mut SchemaBuilder) -> Schema,
    pub read: fn(&Node, &mut Reader<'_>) -> Option<Arc<dyn HandlerPlan>>,
}

/// What a worker's instances are built with.
#[derive(Clone)]
pub struct WorkerContext {
    /// Which worker, from 0.
    pub index: usize,
    /// How many there are.
    pub workers: usize,
    pub telemetry: Arc<Telemetry>,
    /// State of the whole process.
    pub shared: Arc<Shared>,
    /// State of this worker.
    pub local: Rc<Local>,
}

/// Process-wide state keyed by type and identity. It lives as long as somebody holds it, so what
/// two successive Plans both name is kept and what only the old one named goes with it.
#[derive(Default)]
pub struct Shared {
    // Taken when a Plan is built, never while a request runs.
    entries: Mutex<HashMap<(TypeId, String), Weak<dyn Any + Send + Sync>>>,
}

impl Shared {
    /// The living state of that type and identity, or a new one.
    pub fn get<T: Any + Send + Sync>(&self, identity: &str, make: impl FnOnce() -> T) -> Arc<T> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (TypeId::of::<T>(), identity.to_owned());
        if let Some(living) = entries.get(&key).and_then(Weak::upgrade)
            && let Ok(found) = living.downcast::<T>()
        {
            return found;
        }
        entries.retain(|_, entry| entry.strong_count() > 0);
        let made = Arc::new(make());
        let erased: Arc<dyn Any + Send + Sync> = made.clone();
        entries.insert(key, Arc::downgrade(&erased));
        made
    }
}

/// State of one worker keyed by type and identity, with the life of [`Shared`].
#[derive(Default)]
pub struct Local {
    entries: RefCell<HashMap<(TypeId, String), std::rc::Weak<dyn Any>>>,
}

impl Local {
    /// The living state of that type and identity, or a new one.
    pub fn get<T: Any>(&self, identity: &str, make: impl FnOnce() -> T) -> Rc<T> {
        let key = (TypeId::of::<T>(), identity.to_owned());
        let living = self.entries.borrow().get(&key).and_then(std::rc::Weak::upgrade);
        if let Some(found) = living.and_then(|entry| entry.downcast::<T>().ok()) {
            return found;
        }
        let made = Rc::new(make());
        let erased: Rc<dyn Any> = made.clone();
        let mut entries = self.entries.borrow_mut();
        entries.retain(|_, entry| entry.strong_count() > 0);
        entries.insert(key, Rc::downgrade(&erased));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_kept_while_a_plan_holds_it() {
        let shared = Shared::default();
        let first = shared.get("a", || 1u32);
        assert_eq!(*shared.get("a", || 2u32), 1);
        assert_eq!(*shared.get("b", || 3u32), 3);
        assert_eq!(*shared.get("a", || 4u64), 4);
        drop(first);
        assert_eq!(*shared.get("a", || 5u32), 5);
    }
}
