//! Every bound of the client, by name. Those that users set are in [`crate::EtcdSettings`].

use std::time::Duration;

/// Members that a client may be given.
pub(crate) const ENDPOINTS: usize = 64;
/// Longest pause between attempts of a watch or of a lease: less than what an operator waits for
/// after etcd is back.
pub const PAUSE_MAX: Duration = Duration::from_secs(4);
/// Longest pause within the body of a response: watches have their own, shorter one.
pub(crate) const READ: Duration = Duration::from_secs(24 * 3600);
/// Members over which the time of a call is divided.
pub(crate) const SHARES: u32 = 3;
/// The shortest time between two renewals of a lease.
pub(crate) const RENEW_MIN: Duration = Duration::from_millis(500);
/// Bytes of a message in an error.
pub(crate) const DETAIL_BYTES: usize = 512;
