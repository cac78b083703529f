//! The methods of the API, and the head of a request for one.

use std::time::Duration;

use http_client::Url;
use message::{Headers, Request, Target};
use wire::grpc;
use wire::{Known, Method};

/// A method of the API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApiMethod {
    pub(crate) path: &'static str,
    /// True if it changes nothing, or the same when it is executed again.
    pub(crate) is_repeatable: bool,
}

const fn read(path: &'static str) -> ApiMethod {
    ApiMethod { path, is_repeatable: true }
}

const fn write(path: &'static str) -> ApiMethod {
    ApiMethod { path, is_repeatable: false }
}

pub(crate) const RANGE: ApiMethod = read("/etcdserverpb.KV/Range");
pub(crate) const PUT: ApiMethod = write("/etcdserverpb.KV/Put");
pub(crate) const DELETE_RANGE: ApiMethod = write("/etcdserverpb.KV/DeleteRange");
pub(crate) const TXN: ApiMethod = write("/etcdserverpb.KV/Txn");
pub(crate) const COMPACT: ApiMethod = write("/etcdserverpb.KV/Compact");
pub(crate) const WATCH: ApiMethod = read("/etcdserverpb.Watch/Watch");
pub(crate) const LEASE_GRANT: ApiMethod = write("/etcdserverpb.Lease/LeaseGrant");
pub(crate) const LEASE_REVOKE: ApiMethod = write("/etcdserverpb.Lease/LeaseRevoke");
/// A stream of which one message is used: each renewal may reach another member.
pub(crate) const LEASE_KEEP_ALIVE: ApiMethod = read("/etcdserverpb.Lease/LeaseKeepAlive");
pub(crate) const LEASE_TIME_TO_LIVE: ApiMethod = read("/etcdserverpb.Lease/LeaseTimeToLive");
pub(crate) const LEASE_LEASES: ApiMethod = read("/etcdserverpb.Lease/LeaseLeases");
pub(crate) const AUTHENTICATE: ApiMethod = read("/etcdserverpb.Auth/Authenticate");

/// The head of a request; `left` is the time that etcd has for it.
pub(crate) fn request(
    member: &Url,
    method: ApiMethod,
    token: Option<&str>,
    left: Option<Duration>,
) -> Request {
    let mut headers = Headers::new();
    headers.append(Known::Host, &member.authority);
    headers.append(Known::ContentType, "application/grpc");
    headers.append(Known::Te, "trailers");
    if let Some(left) = left {
        headers.append(grpc::TIMEOUT, grpc::timeout_value(left));
    }
    if let Some(token) = token {
        headers.append("token", token);
    }
    if method.path == WATCH.path {
        // A watch at a member without a leader ends, instead of missing what happens.
        headers.append("hasleader", "true");
    }
    // Paths of the API are valid targets.
    let target = Target::new(method.path.into()).unwrap_or_else(|_| Target::asterisk());
    Request::made_up(Method::Post, target, headers)
}
