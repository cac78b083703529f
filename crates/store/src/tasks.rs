//! Background jobs: a bounded queue for each kind of task, and schedules of periodic ones.
//!
//! A job waits until it is due, runs at one owner, and ends when the owner reports so. A job of an
//! owner that is gone runs again, as one that failed, until its attempts are used up: a job is run
//! at least once. Promises bounds in number and bytes (a job that does not fit is rejected, none is
//! evicted), that one of two jobs with the same key is rejected while the other waits or runs, and
//! that a periodic task never runs twice at a time. Time is a parameter.

mod schedule;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;

use crate::limits::{SCHEDULES, TASK_BACKOFF_MS, TASK_OVERHEAD_BYTES};

pub(crate) use schedule::Period;
use schedule::Schedule;

/// The channel of processes that run jobs: an empty message after a change, and the id of a running
/// job that is cancelled.
pub(crate) const TASKS_CHANNEL: &[u8] = b"tidegate:tasks";

/// The identity of a connection.
pub(crate) type Owner = u64;

/// The time: of the clock that never jumps, and in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Now {
    pub(crate) ms: u64,
    pub(crate) wall_ms: u64,
}

/// A job to be queued.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewJob {
    pub(crate) name: Bytes,
    pub(crate) payload: Bytes,
    pub(crate) key: Option<Bytes>,
    pub(crate) due_ms: u64,
    /// The job is dropped if it has not begun by then.
    pub(crate) expires_ms: Option<u64>,
    /// Further attempts after a failure.
    pub(crate) retries: u32,
    /// The pause before the first of them; it doubles with each.
    pub(crate) backoff_ms: u64,
}

#[derive(Debug)]
struct Job {
    new: NewJob,
    /// Attempts that have begun.
    attempts: u32,
    owner: Option<Owner>,
    is_cancelled: bool,
}

impl Job {
    fn bytes(&self) -> usize {
        let key = self.new.key.as_ref().map_or(0, Bytes::len);
        self.new.name.len() + self.new.payload.len() + key + TASK_OVERHEAD_BYTES
    }
}

/// A job that begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) id: u64,
    pub(crate) name: Bytes,
    pub(crate) payload: Bytes,
    /// 1 for the first.
    pub(crate) attempt: u32,
}

/// The reply to an owner that can run a job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Job(Begun),
    /// Nothing is due; the time until the next job is, if there is one.
    Wait(Option<u64>),
}

/// What happens after a failure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    RetryIn(u64),
    Failed,
    Cancelled,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// The job was removed before it began.
    Removed,
    /// The job runs; its owner is to end it.
    Running,
}

/// Numbers of jobs that ended, by how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    pub done: u64,
    pub failed: u64,
    pub retried: u64,
    /// Jobs whose owner ended while they ran.
    pub lost: u64,
    pub expired: u64,
    pub cancelled: u64,
    /// Jobs that were not accepted because the queue is full.
    pub rejected: u64,
}

/// The jobs of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskLoad {
    pub waiting: usize,
    pub running: usize,
}

/// The queue is full.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueFull;

/// The jobs and schedules of one application.
#[derive(Debug, Default)]
pub(crate) struct TaskQueues {
    jobs: HashMap<u64, Job>,
    /// Waiting jobs of each task, by the time they are due.
    waiting: BTreeMap<Bytes, BTreeSet<(u64, u64)>>,
    expiring: BTreeSet<(u64, u64)>,
    keys: HashMap<Bytes, u64>,
    schedules: BTreeMap<Bytes, Schedule>,
    running: usize,
    bytes: usize,
    last_id: u64,
    counts: TaskCounts,
    /// What workers have reported of a queue in Redis.
    elsewhere: Option<(TaskLoad, TaskCounts)>,
}

impl TaskQueues {
    /// The numbers of this queue, or of the one in Redis that workers have reported.
    pub(crate) fn summary(&self) -> (TaskLoad, TaskCounts) {
        self.elsewhere.unwrap_or((self.total(), self.counts))
    }

    /// Stores the numbers of a queue that is elsewhere.
    pub(crate) fn report(&mut self, load: TaskLoad, counts: TaskCounts) {
        self.elsewhere = Some((load, counts));
    }

    fn total(&self) -> TaskLoad {
        TaskLoad { waiting: self.jobs.len() - self.running, running: self.running }
    }

    /// Waiting and running jobs of each task.
    pub(crate) fn loads(&self) -> BTreeMap<Bytes, TaskLoad> {
        let mut loads: BTreeMap<Bytes, TaskLoad> = BTreeMap::new();
        for job in self.jobs.values() {
            let load = loads.entry(job.new.name.clone()).or_default();
            match job.owner {
                Some(_) => load.running += 1,
                None => load.waiting += 1,
            }
        }
        loads
    }

    /// Queues a job; `None` if one with its key waits or runs.
    pub(crate) fn add(
        &mut self,
        new: NewJob,
        jobs_max: usize,
        bytes_max: usize,
    ) -> Result<Option<u64>, QueueFull> {
        if new.key.as_ref().is_some_and(|key| self.keys.contains_key(key)) {
            return Ok(None);
        }
        let job = Job { new, attempts: 0, owner: None, is_cancelled: false };
        if self.jobs.len() >= jobs_max || self.bytes + job.bytes() > bytes_max {
            self.counts.rejected += 1;
            return Err(QueueFull);
        }
        Ok(Some(self.insert(job)))
    }

    fn insert(&mut self, job: Job) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.bytes += job.bytes();
        if let Some(key) = &job.new.key {
            self.keys.insert(key.clone(), id);
        }
        if let Some(expires_ms) = job.new.expires_ms {
            self.expiring.insert((expires_ms, id));
        }
        let name = job.new.name.clone();
        self.waiting.entry(name).or_default().insert((job.new.due_ms, id));
        self.jobs.insert(id, job);
        id
    }

    /// Registers a schedule for as long as one of its owners is connected. False if there are too
    /// many.
    pub(crate) fn schedule(
        &mut self,
        name: &Bytes,
        period: Period,
        owner: Owner,
        now: Now,
    ) -> bool {
        if !self.schedules.contains_key(name) && self.schedules.len() >= SCHEDULES {
            return false;
        }
        let schedule =
            self.schedules.entry(name.clone()).or_insert_with(|| Schedule::new(period, now));
        schedule.owners.insert(owner);
        schedule.set_period(period, now);
        true
    }

    /// Begins the job of these tasks that has been due for longest.
    pub(crate) fn take(&mut self, names: &[Bytes], owner: Owner, now: Now) -> Taken {
        // Expired jobs may remain where no command came since.
        self.expire(usize::MAX, now.ms);
        self.begin_periods(names, now);
        let mut next: Option<(u64, u64)> = None;
        for name in names {
            let first = self.waiting.get(name).and_then(BTreeSet::first).copied();
            next = [next, first].into_iter().flatten().min();
        }
        let Some((due_ms, id)) = next.filter(|(due_ms, _)| *due_ms <= now.ms) else {
            let scheduled = names.iter().filter_map(|name| self.schedules.get(name));
            let periods = scheduled.map(|schedule| schedule.wait_ms(now));
            let next = next.map(|(due_ms, _)| due_ms.saturating_sub(now.ms));
            return Taken::Wait(periods.chain(next).min());
        };
        let Some(job) = self.jobs.get_mut(&id) else { return Taken::Wait(None) };
        job.attempts += 1;
        job.owner = Some(owner);
        let begun = Begun {
            id,
            name: job.new.name.clone(),
            payload: job.new.payload.clone(),
            attempt: job.attempts,
        };
        let expires_ms = job.new.expires_ms.take();
        if let Some(expires_ms) = expires_ms {
            self.expiring.remove(&(expires_ms, id));
        }
        self.forget_waiting(&begun.name, due_ms, id);
        self.running += 1;
        Taken::Job(begun)
    }

    /// Queues the periodic jobs that are due. Periods in which no worker could run them are not
    /// made up for.
    fn begin_periods(&mut self, names: &[Bytes], now: Now) {
        for name in names {
            let Some(schedule) = self.schedules.get_mut(name) else { continue };
            let (left_ms, late_ms) = schedule.distance(now);
            if schedule.job.is_some() || left_ms > 0 {
                continue;
            }
            schedule.advance(now, late_ms);
            let due_ms = now.ms.saturating_sub(late_ms);
            let new = NewJob { name: name.clone(), due_ms, ..NewJob::default() };
            let id = self.insert(Job { new, attempts: 0, owner: None, is_cancelled: false });
            if let Some(schedule) = self.schedules.get_mut(name) {
                schedule.job = Some(id);
            }
        }
    }

    fn forget_waiting(&mut self, name: &Bytes, due_ms: u64, id: u64) {
        if let Some(queue) = self.waiting.get_mut(name) {
            queue.remove(&(due_ms, id));
            if queue.is_empty() {
                self.waiting.remove(name);
            }
        }
    }

    /// Ends a job that its owner has run. False if the job is not this owner's any more.
    pub(crate) fn done(&mut self, id: u64, owner: Owner) -> bool {
        let is_mine = self.is_owned(id, owner);
        if is_mine {
            self.remove(id);
            self.counts.done += 1;
        }
        is_mine
    }

    fn is_owned(&self, id: u64, owner: Owner) -> bool {
        self.jobs.get(&id).is_some_and(|job| job.owner == Some(owner))
    }

    /// Records a failed attempt; `None` if the job is not this owner's any more.
    pub(crate) fn fail(&mut self, id: u64, owner: Owner, now_ms: u64) -> Option<AfterFailure> {
        self.is_owned(id, owner).then(|| self.failed(id, now_ms))
    }

    fn failed(&mut self, id: u64, now_ms: u64) -> AfterFailure {
        let Some(job) = self.jobs.get(&id) else { return AfterFailure::Failed };
        if job.is_cancelled {
            self.remove(id);
            self.counts.cancelled += 1;
            return AfterFailure::Cancelled;
        }
        if job.attempts > job.new.retries {
            self.remove(id);
            self.counts.failed += 1;
            return AfterFailure::Failed;
        }
        let doublings = (job.attempts - 1).min(20);
        let pause_ms = job.new.backoff_ms.saturating_mul(1 << doublings).min(TASK_BACKOFF_MS);
        self.counts.retried += 1;
        self.wait_until(id, now_ms.saturating_add(pause_ms));
        AfterFailure::RetryIn(pause_ms)
    }

    /// Queues a job that was not run to its end and is not at fault, as if it had not begun. False
    /// if the job is not this owner's any more.
    pub(crate) fn put_back(&mut self, id: u64, owner: Owner, now_ms: u64) -> bool {
        if !self.is_owned(id, owner) {
            return false;
        }
        if self.jobs.get(&id).is_some_and(|job| job.is_cancelled) {
            self.remove(id);
            self.counts.cancelled += 1;
            return true;
        }
        if let Some(job) = self.jobs.get_mut(&id) {
            job.attempts -= 1;
        }
        self.wait_until(id, now_ms);
        true
    }

    fn wait_until(&mut self, id: u64, due_ms: u64) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.owner.take().is_some() {
            self.running -= 1;
        }
        job.new.due_ms = due_ms;
        self.waiting.entry(job.new.name.clone()).or_default().insert((due_ms, id));
    }

    /// Removes a waiting job, or marks a running one: it will not be run again.
    pub(crate) fn cancel(&mut self, id: u64) -> Option<Cancelled> {
        let job = self.jobs.get_mut(&id)?;
        job.is_cancelled = true;
        if job.owner.is_some() {
            return Some(Cancelled::Running);
        }
        self.remove(id);
        self.counts.cancelled += 1;
        Some(Cancelled::Removed)
    }

    /// Returns whether the job runs, and its attempts; `None` if it has ended.
    pub(crate) fn find(&self, id: u64) -> Option<(bool, u32)> {
        self.jobs.get(&id).map(|job| (job.owner.is_some(), job.attempts))
    }

    /// Removes the waiting jobs of a task, or of all tasks; returns their number.
    pub(crate) fn clear(&mut self, name: Option<&[u8]>) -> usize {
        let is_wanted = |job: &Job| job.owner.is_none() && name.is_none_or(|n| job.new.name == n);
        let found = self.jobs.iter().filter(|(_, job)| is_wanted(job)).map(|(id, _)| *id);
        let ids: Vec<u64> = found.collect();
        ids.iter().for_each(|id| self.remove(*id));
        self.counts.cancelled += ids.len() as u64;
        ids.len()
    }

    /// Removes some waiting jobs that are not to begin any more.
    pub(crate) fn expire(&mut self, limit: usize, now_ms: u64) {
        for _ in 0..limit {
            match self.expiring.first().copied() {
                Some((expires_ms, id)) if expires_ms <= now_ms => {
                    self.remove(id);
                    self.counts.expired += 1;
                }
                _ => return,
            }
        }
    }

    /// Ends everything of a connection: its jobs run again elsewhere if attempts are left. Returns
    /// true if a job waits again.
    pub(crate) fn leave(&mut self, owner: Owner, now_ms: u64) -> bool {
        self.schedules.retain(|_, schedule| {
            schedule.owners.remove(&owner);
            !schedule.owners.is_empty() || schedule.job.is_some()
        });
        let owned = self.jobs.iter().filter(|(_, job)| job.owner == Some(owner));
        let ids: Vec<u64> = owned.map(|(id, _)| *id).collect();
        let mut waits = false;
        for id in ids {
            self.counts.lost += 1;
            waits |= matches!(self.failed(id, now_ms), AfterFailure::RetryIn(_));
        }
        waits
    }

    fn remove(&mut self, id: u64) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.bytes -= job.bytes();
        if let Some(key) = &job.new.key {
            self.keys.remove(key);
        }
        if let Some(expires_ms) = job.new.expires_ms {
            self.expiring.remove(&(expires_ms, id));
        }
        match job.owner {
            Some(_) => self.running -= 1,
            None => self.forget_waiting(&job.new.name, job.new.due_ms, id),
        }
        if let Some(schedule) = self.schedules.get_mut(&job.new.name)
            && schedule.job == Some(id)
        {
            schedule.job = None;
            if schedule.owners.is_empty() {
                self.schedules.remove(&job.new.name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
