//! Raw TCP programs on one worker: their listeners, across Plans.
//!
//! A socket that a new Plan keeps is never touched: its next connection goes to the new program,
//! those that are open stay with the one they began with.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use config::ListenerPlan;
use lua_host::{ProgramPlan, RawProgram};
use net::{Accepted, Listener, is_exhausted};
use plugin::WorkerContext;
use telemetry::event_limited;
use telemetry::log::Level;

use crate::accept::{EXHAUSTED_PAUSE, StopSignal};
use crate::connection_limiter::ConnectionLimiter;
use crate::descriptors::IdleCloser;
use crate::listeners::key;

/// The programs of a worker, by the key of their sockets.
#[derive(Default)]
pub(crate) struct Programs {
    open: BTreeMap<String, Rc<OpenProgram>>,
    /// Programs that get no connections any more but have some.
    closing: RefCell<Vec<Rc<RawProgram>>>,
}

struct OpenProgram {
    program: RefCell<Rc<RawProgram>>,
    limiters: [Arc<ConnectionLimiter>; 2],
    idle_closer: Rc<IdleCloser>,
    stop: StopSignal,
}

impl Programs {
    /// Opens, replaces and closes what the Plan says; `take` gives what belongs to a socket's key.
    pub(crate) fn follow(
        &mut self,
        plans: &[(ListenerPlan, ProgramPlan)],
        worker: &WorkerContext,
        idle_closer: &Rc<IdleCloser>,
        mut take: impl FnMut(&str) -> (Option<Listener>, [Arc<ConnectionLimiter>; 2]),
    ) {
        let wanted: Vec<String> = plans.iter().map(|(listener, _)| key(listener)).collect();
        let gone: Vec<String> =
            self.open.keys().filter(|key| !wanted.contains(key)).cloned().collect();
        for key in gone {
            self.close_one(&key);
        }
        for ((_, plan), key) in plans.iter().zip(wanted) {
            let program = RawProgram::build(plan, worker);
            if let Some(open) = self.open.get(&key) {
                let before = open.program.replace(program);
                self.closing.borrow_mut().push(before);
                continue;
            }
            let (Some(socket), limiters) = take(&key) else { continue };
            let program = RefCell::new(program);
            let idle_closer = idle_closer.clone();
            let open = Rc::new(OpenProgram {
                program,
                limiters,
                idle_closer,
                stop: StopSignal::default(),
            });
            net::task::spawn_local(accept(socket, open.clone()));
            self.open.insert(key, open);
        }
        self.closing.borrow_mut().retain(|program| program.connections() > 0);
    }

    fn close_one(&mut self, key: &str) {
        if let Some(open) = self.open.remove(key) {
            open.stop.stop();
            self.closing.borrow_mut().push(open.program.borrow().clone());
        }
    }

    /// Takes no more connections.
    pub(crate) fn close(&mut self) {
        let keys: Vec<String> = self.open.keys().cloned().collect();
        for key in keys {
            self.close_one(&key);
        }
    }

    /// Connections of programs that were closed.
    pub(crate) fn connections(&self) -> usize {
        self.closing.borrow().iter().map(|program| program.connections()).sum()
    }
}

impl OpenProgram {
    fn admit(&self, accepted: Accepted) {
        let [own, all] = &self.limiters;
        // Above the limit there is nothing to say in a protocol we do not know.
        let Some(own) = own.acquire() else { return };
        let Some(all) = self.idle_closer.acquire(all) else { return };
        let program = self.program.borrow().clone();
        program.admit(accepted, (own, all));
    }
}

/// Accepts until it is stopped; then takes what is queued.
async fn accept(listener: Listener, open: Rc<OpenProgram>) {
    loop {
        let accepted = poll_fn(|cx| {
            if open.stop.is_stopped(cx.waker()) {
                return Poll::Ready(None);
            }
            listener.poll_accept(cx).map(Some)
        })
        .await;
        match accepted {
            None => break,
            Some(Ok(accepted)) => open.admit(accepted),
            Some(Err(error)) => {
                event_limited!(1, Level::Warn, "accepting a connection failed", error = error);
                if is_exhausted(&error) {
                    open.idle_closer.exhausted(&open.limiters[1]);
                    net::timer::sleep(EXHAUSTED_PAUSE).await;
                }
            }
        }
    }
    for accepted in listener.drain().into_iter().flatten() {
        open.admit(accepted);
    }
}
