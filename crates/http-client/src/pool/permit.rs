//! Permits for requests to a server that has a `max_connections`.
//!
//! Over all workers, testing for room and taking it are one step here. The counters of requests in
//! flight could not do that: two workers that add them up at the same moment both find room. They
//! count requests without a permit, however, which were sent before the server had a limit.

use std::rc::Rc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use super::Pool;

/// The right to have one more request in flight at a server, shared by what is done for the
/// request. The default is that of a server without a limit.
#[derive(Clone, Default)]
pub struct PoolPermit {
    _counted: Option<Rc<CountedPermit>>,
}

struct CountedPermit(Rc<Pool>);

impl Drop for CountedPermit {
    fn drop(&mut self) {
        self.0.parking.permits.fetch_sub(1, Release);
        self.0.room.announce();
    }
}

impl Pool {
    /// True if the server takes one more request, of any worker, with a limit of `most`.
    pub fn has_room(&self, most: u32) -> bool {
        self.parking.permits.load(Relaxed) < most && self.active_everywhere() < i64::from(most)
    }

    /// Returns the permit for one more request; `None` if the server has `most` of them.
    pub fn permit(self: &Rc<Self>, most: u32) -> Option<PoolPermit> {
        if !self.has_room(most) {
            return None;
        }
        let one_more = |permits| (permits < most).then_some(permits + 1);
        self.parking.permits.fetch_update(AcqRel, Relaxed, one_more).ok()?;
        Some(PoolPermit { _counted: Some(Rc::new(CountedPermit(self.clone()))) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use plugin::{Local, Shared, WorkerContext};

    use super::*;
    use crate::{Destination, PoolLimits};

    const WORKERS: usize = 3;
    const MOST: u32 = 2;

    fn pool(shared: &Arc<Shared>, index: usize) -> Rc<Pool> {
        let context = WorkerContext {
            index,
            workers: WORKERS,
            telemetry: Arc::default(),
            shared: shared.clone(),
            local: Rc::new(Local::default()),
        };
        let nowhere = Destination::Tcp(([127, 0, 0, 1], 1).into()).into();
        Pool::of(&context, "test", &nowhere, PoolLimits::default())
    }

    #[test]
    fn a_permit_is_held_until_its_last_user_is_gone() {
        let shared = Arc::default();
        let (pool, other) = (pool(&shared, 0), pool(&shared, 1));
        let permit = pool.permit(1).unwrap();
        assert!(other.permit(1).is_none() && !other.has_room(1));
        assert!(other.permit(2).is_some(), "a reload has raised the limit");
        let copy = permit.clone();
        drop(permit);
        assert!(other.permit(1).is_none());
        drop(copy);
        // A request that was sent when there was no limit.
        let reservation = pool.reserve(PoolPermit::default());
        assert!(other.permit(1).is_none());
        drop(reservation);
        assert!(other.permit(1).is_some());
    }

    #[test]
    fn workers_together_do_not_exceed_the_limit() {
        let (shared, in_flight) = (Arc::default(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for index in 0..WORKERS {
                let (shared, in_flight) = (&shared, &in_flight);
                scope.spawn(move || {
                    let pool = pool(shared, index);
                    for _ in 0..10_000 {
                        let Some(permit) = pool.permit(MOST) else { continue };
                        assert!(in_flight.fetch_add(1, AcqRel) < MOST);
                        in_flight.fetch_sub(1, AcqRel);
                        drop(permit);
                    }
                });
            }
        });
        assert!((0..MOST).all(|_| pool(&shared, 0).permit(MOST).is_some()));
    }
}
