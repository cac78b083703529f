//! Background tasks of upstreams on the control thread: name resolution, discovery and health
//! checks.
//!
//! One task per upstream runs a task for its source, every name, every checked and every ejected
//! server, and replaces them when members, settings or ejections change; a cluster that a plan no
//! longer names loses its tasks. Nothing here runs on a worker, and no worker waits for it.

mod check;
mod discover;
mod family;
mod http2_check;
mod probe;
mod resolve;
mod revive;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use net::Resolver;
use net::task::JoinHandle;
use settings::{Address, Host};

use crate::cluster::{Cluster, Snapshot};
use crate::member::{Member, ServerHealth};
use crate::settings::HealthSettings;
use crate::upstream_plan::DiscoverPlan;
use crate::upstreams::Upstreams;

/// Runs the tasks of all upstreams of the registry. To be spawned on the control thread, whose
/// runtime is local and has a clock; dropping it ends every task.
pub async fn run(upstreams: Arc<Upstreams>, names: Arc<Resolver>) {
    let mut running: HashMap<u64, AbortOnDrop> = HashMap::new();
    loop {
        let clusters = upstreams.all();
        let ids: HashSet<u64> = clusters.iter().map(|cluster| cluster.id).collect();
        running.retain(|id, _| ids.contains(id));
        for cluster in clusters {
            let names = &names;
            running
                .entry(cluster.id)
                .or_insert_with(|| AbortOnDrop::spawn(run_cluster(cluster, names.clone())));
        }
        upstreams.changed.notified().await;
    }
}

/// A task that ends when its handle is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl AbortOnDrop {
    fn spawn(future: impl Future<Output = ()> + 'static) -> AbortOnDrop {
        AbortOnDrop(net::task::spawn_local(future))
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A background task.
#[derive(Clone)]
enum Job {
    Discover(Arc<DiscoverPlan>),
    Resolve(Address),
    Check(Arc<Member>, HealthSettings),
    Revive(Arc<Member>),
}

/// What no two jobs of an upstream have in common. The health of a server is what results are
/// written to; a job keeps it alive, so that its address in memory stands for it.
#[derive(PartialEq, Eq, Hash)]
enum JobKey {
    Discover,
    Resolve(Address),
    Check(*const ServerHealth),
    Revive(*const ServerHealth),
}

impl Job {
    fn key(&self) -> JobKey {
        match self {
            Job::Discover(_) => JobKey::Discover,
            Job::Resolve(server) => JobKey::Resolve(server.clone()),
            Job::Check(member, _) => JobKey::Check(Arc::as_ptr(&member.health)),
            Job::Revive(member) => JobKey::Revive(Arc::as_ptr(&member.health)),
        }
    }

    /// True if a job with the same key does the same.
    fn is_same(&self, other: &Job) -> bool {
        match (self, other) {
            (Job::Discover(one), Job::Discover(other)) => {
                one.settings.is_same_source(&other.settings)
                    && (&one.tls, &one.server_name) == (&other.tls, &other.server_name)
            }
            (Job::Check(one, settings), Job::Check(other, others)) => {
                one.endpoint == other.endpoint && settings == others
            }
            (Job::Resolve(_), Job::Resolve(_)) | (Job::Revive(_), Job::Revive(_)) => true,
            _ => false,
        }
    }
}

async fn run_cluster(cluster: Arc<Cluster>, names: Arc<Resolver>) {
    let mut running: HashMap<JobKey, (Job, AbortOnDrop)> = HashMap::new();
    loop {
        let wanted = jobs(&cluster.snapshot());
        let by_key: HashMap<JobKey, &Job> = wanted.iter().map(|job| (job.key(), job)).collect();
        running.retain(|key, (job, _)| by_key.get(key).is_some_and(|wanted| wanted.is_same(job)));
        for job in &wanted {
            let Entry::Vacant(entry) = running.entry(job.key()) else { continue };
            let cluster = cluster.clone();
            let task = match job.clone() {
                Job::Discover(plan) => {
                    AbortOnDrop::spawn(discover::keep(cluster, plan, names.clone()))
                }
                Job::Resolve(server) => {
                    AbortOnDrop::spawn(resolve::keep(cluster, server, names.clone()))
                }
                Job::Check(member, settings) => {
                    AbortOnDrop::spawn(check::keep(cluster, member, settings))
                }
                Job::Revive(member) => AbortOnDrop::spawn(revive::keep(cluster, member)),
            };
            entry.insert((job.clone(), task));
        }
        cluster.reshaped.notified().await;
    }
}

fn jobs(snapshot: &Snapshot) -> Vec<Job> {
    let names = snapshot
        .servers()
        .map(|server| &server.address.address)
        .filter(|address| matches!(address, Address::Tcp { host: Host::Name(_), .. }));
    let mut jobs: Vec<Job> = names.map(|address| Job::Resolve(address.clone())).collect();
    jobs.extend(snapshot.discover.clone().map(Job::Discover));
    if let Some(health) = &snapshot.settings.health {
        let checks =
            snapshot.members.list.iter().map(|member| Job::Check(member.clone(), health.clone()));
        jobs.extend(checks);
    }
    let ejected = snapshot.members.list.iter().filter(|member| member.health.is_ejected());
    jobs.extend(ejected.map(|member| Job::Revive(member.clone())));
    jobs
}

/// A time span changed by up to a tenth, by a seed: tasks that were started together diverge.
fn jittered(span: Duration, seed: u64) -> Duration {
    let share = crate::ring::mix(seed) % 1000;
    span.mul_f64(0.9 + share as f64 / 5000.0)
}
