//! Applies what the log has to the caches of this server, and lets them serve.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use admin::CacheRequestError;
use cache::shared_purges::{Follower, LogEntry, LogPosition, LogRead};
use cache::store::Purge;
use cache::{Cache, Caches};
use config::ServerPlan;
use net::clock::{self, Moment};
use telemetry::event;
use telemetry::log::Level;

use super::limits::{OWN_MARKS, SAVE_EVERY};
use super::metrics::PurgeMetrics;

pub(super) struct Applier {
    caches: Arc<Caches>,
    plan: RefCell<Arc<ServerPlan>>,
    follower: RefCell<Follower>,
    metrics: Rc<PurgeMetrics>,
    /// Why the log is not followed.
    problem: Rc<RefCell<Option<String>>>,
    /// Where the log is, for messages.
    shown: String,
    /// Purges that this server has carried out before it wrote them.
    own: RefCell<VecDeque<String>>,
    /// The number of the last entry that was applied.
    last_number: Cell<u64>,
    is_unsaved: Cell<bool>,
    saved_at: Cell<Moment>,
}

impl Applier {
    pub(super) fn new(
        caches: &Arc<Caches>,
        plan: &Arc<ServerPlan>,
        metrics: Rc<PurgeMetrics>,
        shown: String,
        alone: Duration,
    ) -> Applier {
        Applier {
            caches: caches.clone(),
            plan: RefCell::new(plan.clone()),
            follower: RefCell::new(Follower::new(alone)),
            metrics,
            problem: Rc::default(),
            shown,
            own: RefCell::default(),
            last_number: Cell::new(0),
            is_unsaved: Cell::new(false),
            saved_at: Cell::new(Moment::from_ms(0)),
        }
    }

    pub(super) fn set_plan(&self, plan: &Arc<ServerPlan>) {
        self.plan.replace(plan.clone());
    }

    pub(super) fn plan(&self) -> Arc<ServerPlan> {
        self.plan.borrow().clone()
    }

    pub(super) fn position(&self) -> Option<LogPosition> {
        self.follower.borrow().position().cloned()
    }

    pub(super) fn last_number(&self) -> u64 {
        self.last_number.get()
    }

    /// Continues where another applier has ended.
    pub(super) fn continue_from(&self, position: Option<LogPosition>) {
        if let Some(position) = position {
            self.follower.borrow_mut().rewind(position);
        }
    }

    pub(super) fn is_current(&self) -> bool {
        self.follower.borrow().is_current()
    }

    pub(super) fn registered(&self, sent_ms: u64) {
        self.follower.borrow_mut().registered(sent_ms);
        self.open();
    }

    pub(super) fn forgotten(&self) {
        self.follower.borrow_mut().forgotten();
        self.open();
    }

    /// True if a cache has begun to exist, or has got a disk.
    pub(super) fn is_to_join(&self) -> bool {
        self.caches.all().iter().any(|cache| cache.store().purges().is_new())
    }

    /// Includes new caches: one on disk is followed from its position on, any other is emptied.
    pub(super) async fn join(&self) {
        let new: Vec<Arc<Cache>> = self.caches.all();
        let new: Vec<_> = new.into_iter().filter(|cache| cache.store().purges().is_new()).collect();
        if new.is_empty() {
            return;
        }
        let joining = new.clone();
        let read = net::blocking(move || {
            let position = |cache: &Arc<Cache>| {
                let text = cache.store().read_position()?;
                LogPosition::decode(&text)
            };
            joining.iter().map(position).collect::<Vec<_>>()
        });
        let positions = read.await.unwrap_or_default();
        let known = self.position();
        for (at, cache) in new.iter().enumerate() {
            let position = positions.get(at).cloned().flatten();
            match position.filter(|own| known.as_ref().is_none_or(|known| known.log == own.log)) {
                Some(position) => self.follower.borrow_mut().rewind(position),
                None => self.clear(vec![cache.clone()]).await,
            }
            cache.store().purges().set_joining();
        }
    }

    /// Applies what was read.
    pub(super) async fn take(&self, read: LogRead) {
        // Before anything is applied: see `LogProgress`.
        self.caches.log_progress().note(&read);
        let LogRead { entries, position, has_gap, has_more, .. } = read;
        if has_gap {
            let is_follower = self.position().is_some();
            if is_follower {
                event!(
                    Level::Warn,
                    "purges were missed that the log does not have any more: caches are emptied",
                    event = "purges_missed",
                    log = self.shown
                );
            }
            self.clear(self.caches.all()).await;
            // Counted once it is true: nothing older is served any more.
            self.metrics.gaps.add(u64::from(is_follower));
        }
        for entry in &entries {
            self.apply(entry).await;
        }
        self.metrics.applied.add(entries.len() as u64);
        if let Some(last) = entries.last() {
            self.last_number.set(last.number);
            self.metrics.number.set(i64::try_from(last.number).unwrap_or(i64::MAX));
        }
        self.is_unsaved.set(self.is_unsaved.get() || self.position().as_ref() != Some(&position));
        self.caches.log_progress().set_applied(&position);
        self.follower.borrow_mut().applied(position, has_more);
        if self.is_current() && !has_more {
            for cache in self.caches.all() {
                let has_joined = cache.store().purges().set_joined();
                self.is_unsaved.set(self.is_unsaved.get() || has_joined);
            }
        }
        self.open();
        self.save();
    }

    async fn apply(&self, entry: &LogEntry) {
        let Some(purge) = &entry.purge else {
            event!(
                Level::Error,
                "a purge of a later version cannot be read: all caches are emptied",
                event = "purge_unknown",
                log = self.shown
            );
            return self.clear(self.caches.all()).await;
        };
        let all = self.caches.all();
        let is_joining = all.iter().any(|cache| cache.store().purges().is_joining());
        if !is_joining && self.own.borrow().contains(&entry.mark) {
            return;
        }
        let (plan, what) = (self.plan(), purge.purge.clone());
        match crate::caches::purge(&self.caches, &plan, &purge.cache, what).await {
            Ok(_) | Err(CacheRequestError::NoCache) => {}
            // Another server could carry it out.
            Err(_) => self.clear(self.caches.get(&purge.cache).into_iter().collect()).await,
        }
    }

    /// Notes that this server has carried out a purge that it is about to write.
    pub(super) fn note_own(&self, mark: &str) {
        let mut own = self.own.borrow_mut();
        if own.len() >= OWN_MARKS {
            own.pop_front();
        }
        own.push_back(mark.to_owned());
    }

    async fn clear(&self, caches: Vec<Arc<Cache>>) {
        let clear = move || {
            for cache in caches {
                cache.store().purge(&Purge::All, false);
            }
        };
        // The thread pool has ended: the process is exiting.
        let _ = net::blocking(clear).await;
    }

    /// Lets the caches serve as long as this server may.
    fn open(&self) {
        let until_ms = self.follower.borrow().serves_until_ms();
        for cache in self.caches.all() {
            cache.store().purges().serve_until(until_ms);
        }
    }

    /// True while responses are served from the caches.
    pub(super) fn serves(&self) -> bool {
        clock::now().as_ms() < self.follower.borrow().serves_until_ms()
    }

    /// Writes the position next to the caches on disk, if it has changed, from time to time.
    pub(super) fn save(&self) {
        let now = clock::now();
        if self.is_unsaved.get() && now.since(self.saved_at.get()) >= SAVE_EVERY {
            self.save_now();
        }
    }

    pub(super) fn save_now(&self) {
        let follower = self.follower.borrow();
        let Some(position) = follower.position().filter(|_| follower.is_current()) else { return };
        let text = position.encode();
        for cache in self.caches.all() {
            if cache.store().purges().has_joined() {
                cache.store().write_position(&text);
            }
        }
        self.is_unsaved.set(false);
        self.saved_at.set(clock::now());
    }

    /// Notes why the log is not followed, or that it is. Logs the first failure and its end.
    pub(super) fn report(&self, failed: Option<String>) {
        if failed.is_some() {
            self.metrics.failures.inc();
        }
        note_problem(&self.problem, &self.shown, failed);
    }

    /// The same for one that outlives the borrow.
    pub(super) fn observer(&self) -> impl Fn(Option<String>) + 'static {
        let (problem, shown) = (self.problem.clone(), self.shown.clone());
        let failures = self.metrics.failures.clone();
        move |failed| {
            if failed.is_some() {
                failures.inc();
            }
            note_problem(&problem, &shown, failed);
        }
    }

    /// What does not work, in a sentence.
    pub(super) fn problem(&self) -> Option<String> {
        let problem = self.problem.borrow().clone()?;
        let serves = match self.serves() {
            true => "caches are used",
            false => "everything is requested from the origin",
        };
        Some(format!("purges: {problem}; {serves}"))
    }
}

fn note_problem(problem: &RefCell<Option<String>>, shown: &str, failed: Option<String>) {
    let before = problem.replace(failed.clone());
    match (before, failed) {
        (None, Some(error)) => event!(
            Level::Error,
            "purges of other servers are not received: caches are used as long as `purges.alone` \
             allows",
            event = "purges_alone",
            log = shown,
            error = error
        ),
        (Some(_), None) => event!(
            Level::Info,
            "purges of other servers are received again",
            event = "purges_received",
            log = shown
        ),
        _ => {}
    }
}
