//! The status of applications, for the admin API and for metrics.

use std::rc::Rc;

use admin::{AppPreloaderStatus, AppStatus, AppTasksStatus, AppWorkerStatus, ProcessMetrics};
use telemetry::{Family, FamilySamples, Sample, Value, families};

use super::Apps;
use crate::supervise::{Preloader, RestartReason, RunningProcess, Stats, WorkerGroup, WorkerSlot};
use crate::worker_process::rss_bytes;

fn tasks(database: &store::Database) -> AppTasksStatus {
    let (load, counts) = database.tasks();
    AppTasksStatus {
        waiting: load.waiting,
        running: load.running,
        done: counts.done,
        failed: counts.failed,
        retried: counts.retried,
    }
}

impl Apps {
    pub(crate) fn status(&self) -> Vec<AppStatus> {
        let groups = self.groups.borrow();
        let status = |(name, app): (&String, &super::App)| AppStatus {
            name: name.clone(),
            target: app.target.clone(),
            ready: app.group.ready(),
            leaving: app.group.leaving().len(),
            workers: app.group.slots().iter().map(|slot| worker(slot)).collect(),
            failures: app.group.failures(),
            errors: app.group.errors(),
            preloader: app.group.preloader().as_deref().map(preloader),
            tasks: tasks(app.store.database()),
        };
        groups.iter().map(status).collect()
    }

    /// Returns a sentence for each application that does not work.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for group in self.all() {
            let failure = group.slots().iter().find_map(|slot| slot.last_failure.borrow().clone());
            let (name, is_ready) = (&group.name, group.ready() > 0);
            problems.extend(match failure {
                Some(why) if is_ready => Some(format!("a process of app {name} failed: {why}")),
                Some(why) => Some(format!("no process of app {name} is ready: {why}")),
                None if is_ready => None,
                None => Some(format!("app {name} is being started")),
            });
        }
        problems
    }

    /// Returns the samples of all applications.
    pub(crate) fn samples(&self) -> Vec<FamilySamples> {
        let groups = self.all();
        let mut all = Vec::new();
        let mut add = |family: &'static Family, value: &dyn Fn(&Stats) -> Value| {
            let samples = groups.iter().flat_map(|group| {
                group.slots().into_iter().map(move |slot| (group.name.clone(), slot))
            });
            let samples = samples.map(|(app, slot)| Sample {
                labels: vec![app, slot.index.to_string()],
                value: value(&sum(&slot)),
            });
            push(&mut all, family, samples.collect());
        };
        add(&families::APP_REQUESTS, &|stats| Value::Counter(stats.requests));
        add(&families::APP_IN_FLIGHT, &|stats| Value::Gauge(level(stats.in_flight)));
        add(&families::APP_WEBSOCKETS, &|stats| Value::Gauge(level(stats.websockets)));
        add(&families::APP_QUEUE, &|stats| Value::Histogram(Box::new(stats.queue.clone())));
        add(&families::APP_CALL, &|stats| Value::Histogram(Box::new(stats.call.clone())));
        add(&families::APP_GIL_WAIT, &|stats| Value::Histogram(Box::new(stats.gil_wait.clone())));
        add(&families::APP_LOOP_LAG, &|stats| Value::Float(stats.loop_lag_ms as f64 / 1e3));
        add(&families::APP_STALLS, &|stats| Value::Counter(stats.stalls));
        add(&families::APP_RSS, &|stats| Value::Gauge(level(stats.rss_bytes)));
        let preloaders = groups.iter().filter_map(|group| {
            let running = group.preloader()?;
            let status = preloader(&running);
            let labels = vec![group.name.clone(), "preloader".to_owned()];
            Some(Sample { labels, value: Value::Gauge(level(status.rss_bytes)) })
        });
        if let Some(memory) = all.last_mut() {
            memory.samples.extend(preloaders);
        }
        let ready = groups.iter().map(|group| Sample {
            labels: vec![group.name.clone()],
            value: Value::Gauge(level(group.ready() as u64)),
        });
        push(&mut all, &families::APP_READY, ready.collect());
        push(&mut all, &families::APP_RESTARTS, groups.iter().flat_map(restarts).collect());
        all
    }

    /// Returns the metrics of all processes: of those that serve HTTP themselves, and of the
    /// applications themselves.
    pub(crate) async fn processes_metrics(&self) -> Vec<ProcessMetrics> {
        let serves_itself = self.running().is_some();
        let mut asked = Vec::new();
        for group in self.all() {
            for slot in group.slots() {
                let Some(running) = slot.current.borrow().clone() else { continue };
                let mut labels = vec![("worker", slot.index.to_string())];
                if !serves_itself {
                    labels.insert(0, ("app", group.name.clone()));
                }
                asked
                    .push((labels, net::task::spawn_local(async move { running.metrics().await })));
            }
        }
        let mut all = Vec::new();
        for (labels, answer) in asked {
            if let Ok(Some(text)) = answer.await {
                all.push(ProcessMetrics { labels, text });
            }
        }
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.borrow().is_empty()
    }
}

fn push(all: &mut Vec<FamilySamples>, family: &'static Family, samples: Vec<Sample>) {
    if !samples.is_empty() {
        all.push(FamilySamples { family, samples });
    }
}

fn level(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Sums the statistics of all processes of a slot.
fn sum(slot: &WorkerSlot) -> Stats {
    let earlier = slot.earlier.borrow();
    match &*slot.current.borrow() {
        Some(running) => earlier.followed_by(&running.stats.borrow()),
        None => earlier.clone(),
    }
}

/// Every reason is exported from the start: Prometheus does not see the first increment of a new
/// counter.
fn restarts(group: &Rc<WorkerGroup>) -> Vec<Sample> {
    let of_slot = |slot: Rc<WorkerSlot>| {
        let counted = slot.restarts.borrow().clone();
        RestartReason::ALL.map(|reason| Sample {
            labels: vec![group.name.clone(), slot.index.to_string(), reason.slug().to_owned()],
            value: Value::Counter(counted.get(&reason).copied().unwrap_or(0)),
        })
    };
    group.slots().into_iter().flat_map(of_slot).collect()
}

fn preloader(preloader: &Preloader) -> AppPreloaderStatus {
    let (is_ready, process) = (preloader.is_ready(), preloader.id());
    // One that has ended uses none, and another process may have its id.
    let rss_bytes = is_ready.then(|| rss_bytes(&process.to_string())).flatten().unwrap_or(0);
    AppPreloaderStatus { is_ready, process, rss_bytes }
}

fn worker(slot: &WorkerSlot) -> AppWorkerStatus {
    let stats = sum(slot);
    let process: Option<Rc<RunningProcess>> =
        slot.current.borrow().clone().or_else(|| slot.coming.borrow().clone());
    let restarts = slot.restarts.borrow();
    AppWorkerStatus {
        index: slot.index,
        state: process.as_ref().map_or("absent", |one| one.phase.get().slug()).to_owned(),
        process: process.as_ref().map(|one| one.id()),
        generation: process.as_ref().map(|one| one.generation),
        started_ms: process.as_ref().map(|one| one.started_ms),
        requests: stats.requests,
        in_flight: stats.in_flight,
        websockets: stats.websockets,
        rss_bytes: stats.rss_bytes,
        loop_lag_ms: stats.loop_lag_ms,
        restarts: restarts.iter().map(|(reason, count)| (reason.slug(), *count)).collect(),
        last_failure: slot.last_failure.borrow().clone(),
    }
}
