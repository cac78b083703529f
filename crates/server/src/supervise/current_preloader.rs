//! The preloader of a group from which workers are forked at present.
//!
//! One is started when a worker needs it. A reload starts the next one before the first worker is
//! replaced; if that cannot import the application, the previous one stays.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::sync::Mutex;

use super::group_settings::GroupSettings;
use super::limits::SHUT_DOWN_WITHIN;
use super::preloader::{Preloader, PreloaderInUse};
use super::process_errors::{explain, start_error};

/// The current preloader, if the group has one.
#[derive(Default)]
pub(super) struct CurrentPreloader {
    current: RefCell<Option<Rc<PreloaderInUse>>>,
    /// Held while one is started.
    turn: Mutex<()>,
    /// Number of starts, and the reason why the last one failed.
    starts: Cell<u64>,
    failure: RefCell<Option<String>>,
    /// True if the next worker needs another one: the application has changed.
    is_expired: Cell<bool>,
}

impl CurrentPreloader {
    /// Makes the next worker start another preloader.
    pub(super) fn expire(&self) {
        self.is_expired.set(true);
    }

    pub(super) fn shown(&self) -> Option<Rc<Preloader>> {
        self.current.borrow().as_ref().map(|one| one.preloader.clone())
    }

    /// Returns the preloader for the current settings of the group, once it is ready.
    pub(super) async fn ready(
        &self,
        app: &str,
        settings: &RefCell<Rc<GroupSettings>>,
    ) -> Result<Rc<PreloaderInUse>, String> {
        let starts = self.starts.get();
        let _turn = self.turn.lock().await;
        let is_usable = |one: &Rc<PreloaderInUse>| {
            let is_current = Rc::ptr_eq(one.preloader.settings(), &settings.borrow());
            is_current && one.preloader.is_ready() && !self.is_expired.get()
        };
        if let Some(usable) = self.current.borrow().as_ref().filter(|one| is_usable(one)) {
            return Ok(usable.clone());
        }
        // Workers that have waited for the same start share its result.
        if let Some(why) = self.failure.borrow().as_ref().filter(|_| self.starts.get() != starts) {
            return Err(why.clone());
        }
        self.is_expired.set(false);
        let current = settings.borrow().clone();
        let started = start(app, current).await;
        self.starts.set(self.starts.get() + 1);
        self.failure.replace(started.as_ref().err().cloned());
        if let Ok(next) = &started {
            self.current.replace(Some(next.clone()));
        }
        started
    }

    /// Kills it without waiting.
    pub(super) fn kill_now(&self) {
        self.current.borrow().iter().for_each(|one| one.preloader.kill_now());
    }

    /// Lets it end: no worker of it is left.
    pub(super) async fn stop(&self) {
        let current = self.current.take().map(|one| one.preloader.clone());
        if let Some(preloader) = current {
            // It is killed if it does not end by itself.
            net::timer::within(2 * SHUT_DOWN_WITHIN, preloader.ended()).await;
        }
    }
}

async fn start(app: &str, settings: Rc<GroupSettings>) -> Result<Rc<PreloaderInUse>, String> {
    let started = Preloader::start(app, settings.clone());
    let one = started.map_err(|error| start_error(&settings.launch, &error))?;
    match one.preloader.until_ready(settings.policy.start_within).await {
        Ok(()) => Ok(one),
        Err(why) => {
            one.preloader.kill_now();
            Err(explain(why, one.preloader.has_reported(), &settings.launch).await)
        }
    }
}
