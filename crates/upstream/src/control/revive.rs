//! Ends the ejection of a server that has been restarted.
//!
//! While a server is ejected, connections to it are attempted at intervals. When it accepts one
//! after it had refused one, its ejection ends at once: the next request tries it. A server that
//! accepts connections all the time stays ejected for its full time.

use std::sync::Arc;

use net::{clock, timer};

use crate::cluster::Cluster;
use crate::limits::{REVIVAL_INTERVAL, REVIVAL_WITHIN};
use crate::member::Member;
use crate::proxy_header::own_header;

/// Attempts connections until it is dropped, at the end of the ejection.
pub(super) async fn keep(cluster: Arc<Cluster>, member: Arc<Member>) {
    let mut was_down = false;
    loop {
        let header = own_header(&cluster.snapshot().settings);
        let connecting = timer::within(REVIVAL_WITHIN, member.endpoint.connect(header.as_ref()));
        let is_down = !matches!(connecting.await, Some(Ok(_)));
        if was_down && !is_down {
            cluster.end_ejection(&member, clock::precise_us() / 1000);
        }
        was_down = is_down;
        timer::sleep(REVIVAL_INTERVAL).await;
    }
}
