//! Servers that demand HTTP/1.1 (RFC 9113 7).

use std::cell::Cell;

use net::clock::{self, Moment};

use crate::limits::HTTP1_DEMANDED;

/// Until when a server is sent HTTP/1.1 alone, because it has refused a request with
/// HTTP_1_1_REQUIRED (RFC 9113 7). It expires: the server may have been configured otherwise.
#[derive(Default)]
pub(crate) struct Http1Demand {
    until: Cell<Option<Moment>>,
}

impl Http1Demand {
    /// Notes that a request was refused.
    pub(super) fn note(&self) {
        self.until.set(Some(clock::now().after(HTTP1_DEMANDED)));
    }

    /// True if new requests go over HTTP/1.1.
    pub(crate) fn holds(&self) -> bool {
        self.until.get().is_some_and(|until| clock::now() < until)
    }
}

#[cfg(test)]
mod tests {
    use net::manual_time::{self, advance};

    use super::*;

    #[test]
    fn a_demand_for_http_1_1_expires() {
        manual_time::block_on(async {
            let demand = Http1Demand::default();
            assert!(!demand.holds());
            demand.note();
            advance(HTTP1_DEMANDED / 2).await;
            assert!(demand.holds());
            advance(HTTP1_DEMANDED).await;
            assert!(!demand.holds());
        });
    }
}
