//! What the control thread does for upstreams: it resolves names again and asks servers how they
//! are.
//!
//! One task per upstream keeps a task for every name, every checked and every ejected server, and
//! renews them when members, settings or ejections change; clusters that a Plan no longer names
//! lose theirs. Nothing here runs
//! on a worker, and a worker waits for nothing here.

mod check;
mod family;
mod resolve;
mod revive;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use net::Resolver;
use net::task::JoinHandle;
use settings::{Address, Host};

use crate::cluster::{Cluster, Snapshot};
use crate::member::Member;
use crate::settings::HealthSettings;
use crate::upstreams::Upstreams;

/// Looks after the upstreams of the registry for ever. To be spawned on the control thread, whose
/// runtime is local and has a clock; dropping it ends every check.
pub async fn run(upstreams: Arc<Upstreams>, names: Arc<Resolver>) {
    let mut keepers: HashMap<u64, Task> = HashMap::new();
    loop {
        let clusters = upstreams.all();
        keepers.retain(|id, _| clusters.iter().any(|cluster| cluster.id == *id));
        for cluster in clusters {
            let names = &names;
            keepers
                .entry(cluster.id)
                .or_insert_with(|| Task::spawn(look_after(cluster, names.clone())));
        }
        upstreams.changed.notified().await;
    }
}

/// A task that ends with its handle.
struct Task(JoinHandle<()>);

impl Task {
    fn spawn(future: impl Future<Output = ()> + 'static) -> Task {
        Task(net::task::spawn_local(future))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One thing to be looked after.
#[derive(Clone)]
enum Duty {
    Resolve(Address),
    Check(Arc<Member>, HealthSettings),
    Revive(Arc<Member>),
}

impl Duty {
    fn is_same(&self, other: &Duty) -> bool {
        match (self, other) {
            (Duty::Resolve(one), Duty::Resolve(other)) => one == other,
            (Duty::Check(one, settings), Duty::Check(other, others)) => {
                // The standing is what is written to: another member may carry it on.
                Arc::ptr_eq(&one.standing, &other.standing) && settings == others
            }
            (Duty::Revive(one), Duty::Revive(other)) => Arc::ptr_eq(&one.standing, &other.standing),
            _ => false,
        }
    }
}

async fn look_after(cluster: Arc<Cluster>, names: Arc<Resolver>) {
    let mut running: Vec<(Duty, Task)> = Vec::new();
    loop {
        let wanted = duties(&cluster.snapshot());
        running.retain(|(duty, _)| wanted.iter().any(|wanted| wanted.is_same(duty)));
        for duty in wanted {
            if running.iter().any(|(known, _)| known.is_same(&duty)) {
                continue;
            }
            let cluster = cluster.clone();
            let task = match duty.clone() {
                Duty::Resolve(server) => Task::spawn(resolve::keep(cluster, server, names.clone())),
                Duty::Check(member, settings) => {
                    Task::spawn(check::keep(cluster, member, settings))
                }
                Duty::Revive(member) => Task::spawn(revive::keep(cluster, member)),
            };
            running.push((duty, task));
        }
        cluster.reshaped.notified().await;
    }
}

fn duties(snapshot: &Snapshot) -> Vec<Duty> {
    let names = snapshot
        .settings
        .servers
        .iter()
        .map(|server| &server.address)
        .filter(|address| matches!(address, Address::Tcp { host: Host::Name(_), .. }));
    let mut duties: Vec<Duty> = names.map(|address| Duty::Resolve(address.clone())).collect();
    if let Some(health) = &snapshot.settings.health {
        let checks =
            snapshot.members.list.iter().map(|member| Duty::Check(member.clone(), health.clone()));
        duties.extend(checks);
    }
    let ejected = snapshot.members.list.iter().filter(|member| member.standing.is_ejected());
    duties.extend(ejected.map(|member| Duty::Revive(member.clone())));
    duties
}

/// A span made longer or shorter by up to a tenth, by a seed: what was started together drifts
/// apart.
fn jittered(span: Duration, seed: u64) -> Duration {
    let share = crate::ring::mix(seed) % 1000;
    span.mul_f64(0.9 + share as f64 / 5000.0)
}
