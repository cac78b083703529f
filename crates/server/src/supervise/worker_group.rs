//! The group of worker processes of one application.
//!
//! Owns their number. Processes are replaced one at a time, the group ends within the given time,
//! and no process survives it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use net::task::JoinHandle;
use telemetry::{ErrorRecord, Telemetry};

use super::control_channel::SupervisorCommand;
use super::group_context::{FirstStart, GroupContext, WorkerSockets};
use super::group_settings::{GroupEvent, GroupSettings};
use super::limits::WORKERS_MAX;
use super::preloader::Preloader;
use super::restart::RestartReason;
use super::running_process::{Phase, RunningProcess};
use super::worker_slot::{WorkerSlot, keep_filled};

/// A group of worker processes.
pub(crate) struct WorkerGroup {
    pub(crate) name: String,
    context: Rc<GroupContext>,
    slots: RefCell<Vec<(Rc<WorkerSlot>, JoinHandle<()>)>>,
    on_change: Box<dyn Fn(&WorkerGroup)>,
    /// True if changes are no longer reported: another group may have the name.
    is_over: Cell<bool>,
}

impl WorkerGroup {
    /// Starts the processes. `on_change` is called whenever a process is replaced or ends.
    pub(crate) fn start(
        name: &str,
        settings: GroupSettings,
        sockets: WorkerSockets,
        workers: usize,
        telemetry: &Arc<Telemetry>,
        on_change: impl Fn(&WorkerGroup) + 'static,
    ) -> Rc<WorkerGroup> {
        let group = Rc::new_cyclic(|group: &std::rc::Weak<WorkerGroup>| {
            let group = group.clone();
            let changed = move || group.upgrade().iter().for_each(|group| group.changed());
            WorkerGroup {
                name: name.to_owned(),
                context: GroupContext::new(name, settings, sockets, telemetry, changed),
                slots: RefCell::default(),
                on_change: Box::new(on_change),
                is_over: Cell::new(false),
            }
        });
        group.set_workers(workers);
        group
    }

    pub(crate) fn settings(&self) -> Rc<GroupSettings> {
        self.context.settings()
    }

    pub(crate) fn slots(&self) -> Vec<Rc<WorkerSlot>> {
        self.slots.borrow().iter().map(|(slot, _)| slot.clone()).collect()
    }

    /// Returns the draining processes.
    pub(crate) fn leaving(&self) -> Vec<Rc<RunningProcess>> {
        self.context.leaving()
    }

    /// Returns the last failures of its processes, the latest first.
    pub(crate) fn failures(&self) -> Vec<ErrorRecord> {
        self.context.failures.latest()
    }

    /// Returns the last exceptions that requests raised, the latest first.
    pub(crate) fn errors(&self) -> Vec<ErrorRecord> {
        self.context.errors.latest()
    }

    /// Returns the process from which workers are forked.
    pub(crate) fn preloader(&self) -> Option<Rc<Preloader>> {
        self.context.preloader.shown()
    }

    /// Returns the number of client connections, as last reported by the processes.
    pub(crate) fn connections(&self) -> u64 {
        self.slots().iter().map(|slot| self.context.connections(slot.index)).sum()
    }

    /// Closes the shared sockets, so that only draining processes hold them, and no client waits
    /// for a server that is stopping.
    pub(crate) fn stop_listening(&self) {
        self.context.stop_listening();
    }

    /// Returns the number of processes that accept requests.
    pub(crate) fn ready(&self) -> usize {
        let is_ready = |slot: &Rc<WorkerSlot>| {
            let current = slot.current.borrow();
            current.as_ref().is_some_and(|running| running.phase.get() == Phase::Ready)
        };
        self.slots().iter().filter(|slot| is_ready(slot)).count()
    }

    /// Sets the number of processes: more are started, or the last ones are stopped.
    pub(crate) fn set_workers(self: &Rc<Self>, workers: usize) {
        let workers = workers.min(WORKERS_MAX);
        let before = Some(self.slots.borrow().len()).filter(|before| *before > 0);
        if before != Some(workers) {
            self.context.tell(GroupEvent::Workers { now: workers, before });
        }
        let mut slots = self.slots.borrow_mut();
        while slots.len() > workers {
            if let Some((slot, _)) = slots.pop() {
                slot.give_up();
            }
        }
        while slots.len() < workers {
            let slot = WorkerSlot::new(slots.len());
            let task = net::task::spawn_local(keep_filled(self.context.clone(), slot.clone()));
            slots.push((slot, task));
        }
        drop(slots);
        // Requests that arrive before a new process has started are queued for it.
        self.changed();
    }

    /// Adds or removes workers; at least one remains.
    pub(crate) fn add_workers(self: &Rc<Self>, more: isize) {
        let now = self.slots.borrow().len();
        self.set_workers(now.saturating_add_signed(more).max(1));
    }

    /// Returns when the first process is ready, or the reason why it could not start.
    pub(crate) async fn first(&self) -> Result<(), String> {
        let mut first = self.context.first.subscribe();
        match first.wait_for(|first| *first != FirstStart::Coming).await.as_deref() {
            Ok(FirstStart::Failed(why)) => Err(why.clone()),
            _ => Ok(()),
        }
    }

    /// Returns when the first process is ready, however many could not start.
    pub(crate) async fn until_ready(&self) {
        let mut first = self.context.first.subscribe();
        // The other end is ours.
        let _ = first.wait_for(|first| *first == FirstStart::Ready).await;
    }

    /// Reports that a process was replaced or has ended.
    fn changed(&self) {
        for slot in self.slots() {
            if slot.current.borrow().is_none() {
                self.context.clear_connections(slot.index);
            }
        }
        if self.ready() > 0 {
            self.context.first.send_if_modified(|first| {
                let is_news = *first != FirstStart::Ready;
                *first = FirstStart::Ready;
                is_news
            });
        }
        if !self.is_over.get() {
            (self.on_change)(self);
        }
    }

    /// Replaces every process, one after the other; stops at the first failure. A preloader is
    /// replaced before.
    pub(crate) async fn reload(&self) -> Result<(), String> {
        self.context.tell(GroupEvent::Reloading);
        self.context.preloader.expire();
        for slot in self.slots() {
            if !slot.is_given_up() {
                slot.replace(RestartReason::Reload).await?;
            }
        }
        Ok(())
    }

    /// Replaces the processes that were started with other settings than the current ones.
    pub(crate) async fn renew(&self) -> Result<(), String> {
        for slot in self.slots() {
            let is_new = {
                let current = slot.current.borrow();
                current.as_ref().is_none_or(|one| Rc::ptr_eq(&one.settings, &self.settings()))
            };
            if !is_new && !slot.is_given_up() {
                slot.replace(RestartReason::Reload).await?;
            }
        }
        Ok(())
    }

    /// Tells every process to reopen its log files.
    pub(crate) fn reopen_logs(&self) {
        for running in self.slots().iter().filter_map(|slot| slot.current.borrow().clone()) {
            net::task::spawn_local(async move {
                running.send_command(SupervisorCommand::ReopenLogs).await
            });
        }
    }

    /// Tells every process that an interrupt ends the server.
    pub(crate) fn interrupt(&self) {
        for running in self.slots().iter().filter_map(|slot| slot.current.borrow().clone()) {
            net::task::spawn_local(async move {
                running.send_command(SupervisorCommand::Interrupted).await
            });
        }
    }

    /// Sets the settings of processes that are started from now on; running ones continue.
    pub(crate) fn change(&self, settings: GroupSettings) {
        self.context.set_settings(settings);
    }

    /// Stops the group: requests in flight are finished, processes that time out are killed.
    /// Returns the number of connections that its processes have cut off.
    pub(crate) async fn stop(&self) -> u64 {
        let slots = self.slots.take();
        self.changed();
        self.is_over.set(true);
        slots.iter().for_each(|(slot, _)| slot.give_up());
        for (_, task) in slots {
            // A task that panicked has ended as well.
            let _ = task.await;
        }
        let cut_off = self.context.until_all_left().await;
        self.context.preloader.stop().await;
        cut_off
    }

    /// Kills all processes of the group at once.
    pub(crate) fn kill(&self) {
        for slot in self.slots() {
            slot.give_up();
            for running in [&slot.current, &slot.coming] {
                running.borrow().iter().for_each(|running| running.kill_now());
            }
        }
        self.leaving().iter().for_each(|running| running.kill_now());
        self.context.preloader.kill_now();
    }
}
