//! Kinds and plans of filters and handlers, and the context in which a worker builds them.
//!
//! Settings flow one way: text → plan → instance. A crate exports a table of kinds; `config` reads
//! each entry into a plan (`Send + Sync`, shared by all workers); every worker builds its own
//! instance of it, which need not be `Send` and takes no lock. State that must outlive a plan
//! (pools, health, rate buckets) is requested from the context by its identity.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::rc::{self, Rc};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use settings::{Node, Reader, Schema, SchemaBuilder};
use telemetry::{CachePadded, Counter, Telemetry, families};

use crate::{Handler, HandlerSetting, Stage};

/// The names of the route that a filter is built for.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouteNames<'r> {
    /// The name in metrics and logs. A route that the configuration does not name has one by its
    /// position, which is another route's when routes before it are removed.
    pub shown: &'r str,
    /// Tells the route from those of other configurations too: for state that outlives a plan and
    /// must not be another route's.
    pub identity: &'r str,
}

impl<'r> From<&'r str> for RouteNames<'r> {
    /// The names of a route that the configuration names.
    fn from(name: &'r str) -> Self {
        RouteNames { shown: name, identity: name }
    }
}

/// One entry of a route's `filters`, checked and frozen.
pub trait FilterPlan: Send + Sync {
    fn name(&self) -> &'static str;
    fn build(&self, worker: &WorkerContext) -> Stage;
    /// Like `build`, for a route of these names: for filters whose state routes must not share.
    fn build_on(&self, _route: RouteNames<'_>, worker: &WorkerContext) -> Stage {
        self.build(worker)
    }
    /// The plan itself, so that the crate that made it can downcast it.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
    /// One line for `explain`, with no secret in it.
    fn describe(&self) -> String {
        String::new()
    }
    /// The upstreams that its own files name.
    fn mentions(&self) -> Option<&Mentions> {
        None
    }
    /// True if it changes responses that the server generates ([`crate::Filter::on_generated`]).
    /// Those of `defaults` then also change responses to requests without a route.
    fn changes_generated(&self) -> bool {
        false
    }
    /// The handlers among its settings, which `config` reads once it has read the filter.
    fn handlers(&self) -> Vec<&HandlerSetting> {
        Vec::new()
    }
    /// True if it rejects clients that do not authenticate: a route with such a filter is
    /// protected.
    fn authenticates(&self) -> bool {
        false
    }
    /// True if a request is decided or changed by what filters that authenticate set: the filter
    /// belongs behind them.
    fn needs_authentication(&self) -> bool {
        false
    }
    /// Sentences for `check` about settings that are valid but may surprise.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
    /// The limits that it takes from the entries of consumers.
    fn consumer_limits(&self) -> Vec<ConsumerLimit> {
        Vec::new()
    }
    /// What distinguishes the state that it has under the name of its route, if it has any: a
    /// second filter of the route with the same state has to have a name.
    fn route_state(&self) -> Option<String> {
        None
    }
    /// The places of requests that it takes credentials from. On every route, their values are
    /// masked where requests are logged or shown.
    fn credential_places(&self) -> Vec<CredentialPlace> {
        Vec::new()
    }
}

/// A place of requests that credentials are taken from, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CredentialPlace {
    /// In lower case.
    Header(String),
    Cookie(String),
    Query(String),
}

/// A limit in the entries of consumers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConsumerLimit {
    /// `limits.rate` and `limits.burst`.
    Rate,
    /// The entry of this name in `limits.quotas`.
    Quota(String),
}

/// A route's `handler`, checked and frozen.
pub trait HandlerPlan: Send + Sync {
    fn name(&self) -> &'static str;
    fn build(&self, worker: &WorkerContext) -> Rc<dyn Handler>;
    fn describe(&self) -> String {
        String::new()
    }
    /// The plan itself, so that the crate that made it can downcast it.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
    /// The upstream it names, with its position: checked against `upstreams`.
    fn upstream(&self) -> Option<&settings::Spanned<String>> {
        None
    }
    /// The limits that it takes from the entries of consumers.
    fn consumer_limits(&self) -> Vec<ConsumerLimit> {
        Vec::new()
    }
    /// A sentence for `check` about settings that are valid but may surprise.
    fn note(&self) -> Option<String> {
        None
    }
    /// The upstreams that its own files name.
    fn mentions(&self) -> Option<&Mentions> {
        None
    }
}

/// The upstreams that the files of a plan name: checked against `upstreams` like those that the
/// configuration itself names.
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
    /// The position of the file's name in the configuration.
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

/// The context in which a worker builds its instances.
#[derive(Clone)]
pub struct WorkerContext {
    /// Which worker, from 0.
    pub index: usize,
    /// The number of workers.
    pub workers: usize,
    pub telemetry: Arc<Telemetry>,
    /// State of the whole process.
    pub shared: Arc<Shared>,
    /// State of this worker.
    pub local: Rc<Local>,
}

impl WorkerContext {
    /// Counts the requests that a filter rejects for a reason.
    pub fn policy_rejections(&self, filter: &str, reason: &str) -> Arc<CachePadded<Counter>> {
        let labels = [filter, reason];
        self.telemetry.worker_counter(self.index, &families::POLICY_REJECTIONS, &labels)
    }
}

impl Default for WorkerContext {
    /// The only worker of a process, with state of its own: for tests and small programs.
    fn default() -> WorkerContext {
        WorkerContext {
            index: 0,
            workers: 1,
            telemetry: Arc::new(Telemetry::new()),
            shared: Arc::default(),
            local: Rc::default(),
        }
    }
}

/// Process-wide state by key. An entry lives as long as something holds it: state that two
/// successive plans use is reused, and state that only the old plan uses is dropped with it.
#[derive(Default)]
pub struct Shared {
    /// One `HashMap<K, Weak<T>>` for each pair of types. Locked when a plan is built, never while a
    /// request runs.
    tables: Mutex<HashMap<TypeId, Box<dyn Any + Send>>>,
}

impl Shared {
    /// Returns the living state of type `T` under `key`, or makes it. Keys of different types and
    /// states of different types never meet; the only state of its type has the key `()`.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let shared = plugin::Shared::default();
    /// let before_reload = shared.get("orders", AtomicU64::default);
    /// before_reload.fetch_add(1, Ordering::Relaxed);
    /// let after_reload = shared.get("orders", AtomicU64::default);
    /// assert_eq!(after_reload.load(Ordering::Relaxed), 1);
    /// ```
    pub fn get<K, T>(&self, key: K, make: impl FnOnce() -> T) -> Arc<T>
    where
        K: Hash + Eq + Send + 'static,
        T: Send + Sync + 'static,
    {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let table = tables
            .entry(TypeId::of::<(K, T)>())
            .or_insert_with(|| Box::new(HashMap::<K, Weak<T>>::new()));
        let table: &mut HashMap<K, Weak<T>> = typed(&mut **table);
        if let Some(living) = table.get(&key).and_then(Weak::upgrade) {
            return living;
        }
        if table.len() == table.capacity() {
            // Not each time: a plan may have thousands of entries.
            table.retain(|_, entry| entry.strong_count() > 0);
        }
        let made = Arc::new(make());
        table.insert(key, Arc::downgrade(&made));
        made
    }
}

/// State of one worker by key, with the lifetime rules of [`Shared`].
#[derive(Default)]
pub struct Local {
    tables: RefCell<HashMap<TypeId, Box<dyn Any>>>,
}

impl Local {
    /// Returns the living state of type `T` under `key`, or makes it; see [`Shared::get`]. `make`
    /// may call this method.
    pub fn get<K, T>(&self, key: K, make: impl FnOnce() -> T) -> Rc<T>
    where
        K: Hash + Eq + 'static,
        T: 'static,
    {
        let living =
            self.table(|table: &mut HashMap<K, _>| table.get(&key).and_then(rc::Weak::upgrade));
        living.unwrap_or_else(|| {
            let made = Rc::new(make());
            self.table(|table: &mut HashMap<K, _>| {
                if table.len() == table.capacity() {
                    table.retain(|_, entry| entry.strong_count() > 0);
                }
                table.insert(key, Rc::downgrade(&made));
            });
            made
        })
    }

    fn table<K: 'static, T: 'static, R>(
        &self,
        work: impl FnOnce(&mut HashMap<K, rc::Weak<T>>) -> R,
    ) -> R {
        let mut tables = self.tables.borrow_mut();
        let table = tables
            .entry(TypeId::of::<(K, T)>())
            .or_insert_with(|| Box::new(HashMap::<K, rc::Weak<T>>::new()));
        work(typed(&mut **table))
    }
}

fn typed<T: 'static>(table: &mut dyn Any) -> &mut T {
    match table.downcast_mut() {
        Some(table) => table,
        None => unreachable!("a table is stored under the types of its keys and values"),
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
        assert_eq!(*shared.get("a", || 4u64), 4, "another type of state");
        assert_eq!(*shared.get(1u8, || 6u32), 6, "another type of key");
        drop(first);
        assert_eq!(*shared.get("a", || 5u32), 5);
    }
}
