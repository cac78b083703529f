//! `owners`: the servers of a fleet that own the URLs of a cache.
//!
//! On a miss a server requests the response from the owner of its key before it requests it from
//! the origin. Promises that an owner never requests from another owner, so that there is no loop;
//! that only a server that knows the secret is treated as one; that only responses which may be
//! shared are passed on; and that no request fails because of an owner. Which server owns a key is
//! decided by `upstream`, through [`plugin::KeyOwners`]; `fill::ask_owner` asks, `filter::miss`
//! answers.

mod marker;

use std::rc::Rc;
use std::time::Duration;

use message::{Request, Response};
use net::clock::wall_secs;
use plugin::{Handler, HandlerSetting, KeyOwner, WorkerContext};

pub(crate) use marker::{ASK, AskMarker, KeyDigest, OWNER, OwnerReply, key_digest};
pub use marker::{signed_ask, signed_reply};

use crate::Key;
use crate::limits::OWNER_CLOCK_ERROR_S;
use crate::settings::OwnersSettings;
use marker::FleetSecret;

/// The owners of one entry, as the plan has them.
pub(crate) struct OwnersPlan {
    pub(crate) upstream: HandlerSetting,
    within: Duration,
    secret: FleetSecret,
}

impl OwnersPlan {
    pub(crate) fn new(settings: &OwnersSettings) -> Option<OwnersPlan> {
        Some(OwnersPlan {
            upstream: HandlerSetting::of_upstream(&settings.upstream),
            within: settings.within.get(),
            secret: FleetSecret::new(settings.secret.expose())?,
        })
    }

    /// Builds what a worker of a process needs.
    pub(crate) fn build(&self, process: u64, worker: &WorkerContext) -> Owners {
        Owners {
            upstream: self.upstream.build(worker),
            within: self.within,
            secret: self.secret.clone(),
            process,
        }
    }
}

/// The owners of one entry, on one worker.
pub(crate) struct Owners {
    upstream: Rc<dyn Handler>,
    pub(crate) within: Duration,
    secret: FleetSecret,
    /// Distinguishes this process from the others of the fleet.
    process: u64,
}

impl Owners {
    /// The server that owns a key; `None` if it is this one.
    pub(crate) fn owner(&self, key: &Key) -> Option<Box<dyn KeyOwner>> {
        self.upstream.key_owners()?.owner(key.text())
    }

    /// Marks a request to the owner of its key.
    pub(crate) fn mark(&self, request: &mut Request, key: KeyDigest) -> AskMarker {
        let marker = AskMarker {
            process: self.process,
            nonce: fastrand::u64(..),
            time_s: wall_secs(),
            scheme: request.scheme,
            key,
        };
        request.headers.set(ASK, marker.encode(&self.secret));
        marker
    }

    /// Reads the marker of a request, if another server has written it for a request of now, and
    /// not for one that was recorded on the network and is repeated.
    pub(crate) fn marker(&self, value: &[u8]) -> Option<AskMarker> {
        let marker = AskMarker::decode(value, &self.secret)?;
        (marker.time_s.abs_diff(wall_secs()) <= OWNER_CLOCK_ERROR_S).then_some(marker)
    }

    /// True if this process has written the marker.
    pub(crate) fn is_own(&self, marker: &AskMarker) -> bool {
        marker.process == self.process
    }

    /// Takes from a response what its sender says about it; `None` if it is not an owner.
    pub(crate) fn take_reply(
        &self,
        response: &mut Response,
        marker: &AskMarker,
    ) -> Option<OwnerReply> {
        let reply = response.headers.get(OWNER)?;
        let reply = OwnerReply::decode(reply, marker, &self.secret);
        response.headers.remove(OWNER);
        reply
    }

    /// Adds to a response what this server says about it.
    pub(crate) fn add_reply(&self, response: &mut Response, marker: &AskMarker, reply: OwnerReply) {
        response.headers.set(OWNER, reply.encode(marker, &self.secret));
    }
}
