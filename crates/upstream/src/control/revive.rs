//! Notices that an ejected server has been restarted.
//!
//! While a server is ejected, it is connected to now and then. Once it takes connections after it
//! had refused one, its ejection ends at once: the next request tries it. A server that is ejected
//! though it takes connections all the time stays out for its full time.

use std::sync::Arc;

use net::clock;

use super::check::connect;
use crate::cluster::Cluster;
use crate::limits::{REVIVAL_INTERVAL, REVIVAL_WITHIN};
use crate::member::Member;

/// Connects to an ejected server until it is dropped, which is when the ejection is over.
pub(super) async fn keep(cluster: Arc<Cluster>, member: Arc<Member>) {
    let mut was_down = false;
    loop {
        let connecting = tokio::time::timeout(REVIVAL_WITHIN, connect(&member.destination));
        let is_down = !matches!(connecting.await, Ok(Ok(_)));
        if was_down && !is_down {
            cluster.end_ejection(&member, clock::precise_us() / 1000);
        }
        was_down = is_down;
        tokio::time::sleep(REVIVAL_INTERVAL).await;
    }
}
