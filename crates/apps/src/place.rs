//! Where the exchanges of an application go: a desk in this process, or a process of its own.

use std::sync::Arc;

use exchange::handover::{Arrival, Desk};
use exchange::{Fault, Side};

/// Seconds after which a client may ask again when there was no place.
const RETRY_AFTER_S: u32 = 1;

/// Takes exchanges for an application.
pub trait Place {
    /// Takes it to be answered, at once: nothing waits outside of what the place bounds.
    fn offer(&self, arrival: Arrival) -> Result<(), Refused>;
}

/// Why an exchange was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many wait as may.
    Full,
    /// Nobody is there: the application is being started, or has failed.
    Absent,
}

impl Refused {
    /// What the client is told: it may ask again.
    pub fn fault(self) -> Fault {
        let (slug, detail) = match self {
            Refused::Full => ("app_full", "as many requests wait for the application as may"),
            Refused::Absent => ("app_absent", "no process of the application is ready"),
        };
        let fault = Fault::new(Side::Us, 503, slug, detail);
        Fault { retry_after_s: Some(RETRY_AFTER_S), ..fault }
    }
}

impl Place for Arc<Desk> {
    fn offer(&self, arrival: Arrival) -> Result<(), Refused> {
        self.put(arrival).map_err(|_| Refused::Full)
    }
}
