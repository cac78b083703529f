//! File descriptors: the number of client connections that the process's limit allows, and what is
//! closed when descriptors run out.
//!
//! Clients alone never use up the descriptors of the admin API, of upstream connections, of files
//! and of logs. An idle client connection is closed in favour of a new one. Running out is counted,
//! logged and shown by `/readyz`.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use config::ServerPlan;
use http_server::{Service, close_longest_idle};
use plugin::WorkerContext;
use telemetry::log::Level;
use telemetry::{LimitHit, event, event_limited};

use crate::connection_limiter::{ConnectionLimiter, Permit};

/// Descriptors that suffice for the connections of both admin listeners.
const ADMIN_MAX: u64 = 640;
/// The admin API gets this fraction of the free descriptors, if that is less.
const ADMIN_SHARE: u64 = 8;
/// Idle time after which a connection may be closed for a new one.
const IDLE_FOR: Duration = Duration::from_secs(1);

/// Time for which `/readyz` reports that descriptors ran out.
const TROUBLE_FOR: Duration = Duration::from_secs(30);

/// The division of the process's limit, measured at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    pub(crate) limit: u64,
    /// Descriptors for client connections and everything these need.
    shared: usize,
    /// Connections of one admin listener, and those of its reserve.
    pub(crate) admin: (usize, usize),
}

impl Descriptors {
    pub(crate) fn measure() -> Descriptors {
        Descriptors::of(net::descriptor_limit(), net::open_descriptors())
    }

    fn of(limit: u64, in_use: u64) -> Descriptors {
        let free = limit.saturating_sub(in_use);
        let admin = (free / ADMIN_SHARE).min(ADMIN_MAX);
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Descriptors {
            limit,
            shared: count(free - admin),
            admin: (count(admin * 2 / 5).max(4), count(admin / 10).max(2)),
        }
    }

    /// Client connections of a plan: half of the free descriptors if each may need another one for
    /// an upstream, an application or Lua, else three quarters.
    pub(crate) fn connections(&self, plan: &ServerPlan) -> usize {
        let needs_more = !plan.upstreams.is_empty()
            || !plan.apps.is_empty()
            || !plan.programs.is_empty()
            || plan
                .routes
                .iter()
                .flat_map(|route| route.handlers())
                .any(|handler| matches!(handler.name(), "lua" | "app"));
        self.connections_where(needs_more)
    }

    /// Logs the limit.
    pub(crate) fn log(&self, limiter: &ConnectionLimiter, is_worker_process: bool) {
        let level = if is_worker_process { Level::Debug } else { Level::Info };
        let (limit, connections) = (self.limit, limiter.limit());
        event!(level, "file descriptors", limit = limit, client_connections = connections);
    }

    /// The message of `/readyz` if descriptors have run out.
    pub(crate) fn problem(&self, limiter: &ConnectionLimiter) -> Option<String> {
        let (limit, connections) = (self.limit, limiter.limit());
        limiter.was_full_within(TROUBLE_FOR).then(|| {
            format!(
                "out of file descriptors: the limit of {limit} allows {connections} client \
                 connections, idle ones are closed for new ones; raise LimitNOFILE or `ulimit -Hn`"
            )
        })
    }

    fn connections_where(&self, needs_more: bool) -> usize {
        let connections = if needs_more { self.shared / 2 } else { self.shared - self.shared / 4 };
        connections.max(1)
    }
}

/// Frees descriptors on a worker by closing idle connections of its services.
pub(crate) struct IdleCloser {
    context: WorkerContext,
    services: RefCell<Vec<Weak<Service>>>,
    /// Connections that were told to close and whose permits have not been reused yet.
    owed: Cell<usize>,
}

impl IdleCloser {
    pub(crate) fn new(context: &WorkerContext) -> Rc<IdleCloser> {
        Rc::new(IdleCloser {
            context: context.clone(),
            services: RefCell::default(),
            owed: Cell::new(0),
        })
    }

    pub(crate) fn add(&self, service: &Rc<Service>) {
        let mut services = self.services.borrow_mut();
        services.retain(|service| service.strong_count() > 0);
        services.push(Rc::downgrade(service));
    }

    /// Acquires a permit for another connection. If descriptors limit the number, the connections
    /// that have been idle longest are closed.
    pub(crate) fn acquire(&self, all: &Arc<ConnectionLimiter>) -> Option<Permit> {
        if let Some(permit) = all.acquire() {
            self.owed.set(0);
            return Some(permit);
        }
        if !all.is_capped() {
            return None;
        }
        if self.owed.get() == 0 {
            self.owed.set(self.close_clients(all));
        }
        let left = self.owed.get().checked_sub(1)?;
        self.owed.set(left);
        Some(all.acquire_over_limit())
    }

    /// Closes idle connections after accepting failed for lack of descriptors.
    pub(crate) fn exhausted(&self, all: &ConnectionLimiter) {
        if self.close_clients(all) == 0 {
            http_client::close_idle(&self.context);
        }
    }

    fn close_clients(&self, all: &ConnectionLimiter) -> usize {
        all.note_full();
        self.context.telemetry.worker(self.context.index).hit(LimitHit::Descriptors);
        let services: Vec<Rc<Service>> =
            self.services.borrow().iter().filter_map(Weak::upgrade).collect();
        let closed = close_longest_idle(&services, IDLE_FOR);
        event_limited!(
            1,
            Level::Warn,
            "out of file descriptors, closing the longest idle connections; raise LimitNOFILE or \
             `ulimit -Hn`",
            event = "descriptors_exhausted",
            limit = net::descriptor_limit(),
            connections = all.open(),
            closed = closed
        );
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::Descriptors;

    #[test]
    fn clients_leave_descriptors_for_everything_else() {
        for (limit, in_use) in [(64, 30), (256, 40), (1024, 50), (65_536, 60), (1 << 20, 100)] {
            let parts = Descriptors::of(limit, in_use);
            let admin = 2 * (parts.admin.0 + parts.admin.1);
            let connections = parts.connections_where(true);
            let left = limit as usize - in_use as usize - connections;
            assert!(left >= admin, "{limit}: {parts:?}");
            // Except with the smallest limits, each connection can have one to an upstream.
            assert!(limit < 256 || left - admin >= connections - 1, "{limit}: {parts:?}");
        }
        assert_eq!(Descriptors::of(65_536, 60).connections_where(true), 32_418);
        assert_eq!(Descriptors::of(10, 60).connections_where(false), 1);
    }
}
