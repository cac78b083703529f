//! Where the exchanges of an application go: a desk in this process, or a process of its own.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use exchange::offload::{Arrival, OffloadedRequest, RequestQueue};
use exchange::{Fault, Side};

use crate::whole::gather;

/// Seconds after which a client may ask again when there was no place.
const RETRY_AFTER_S: u32 = 1;

/// Takes exchanges for an application.
pub trait Place {
    /// Takes it to be answered, at once: nothing waits outside of what the place bounds.
    fn offer(&self, arrival: Arrival) -> Result<(), Refused>;

    /// Whether it takes sessions of WebSocket.
    fn takes_sessions(&self) -> bool {
        true
    }
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

/// A desk in this process, as one worker sees it.
///
/// The reader is alerted when the worker has read all that is there now: many of them cost one
/// wake-up, and two threads that wake each other for every request would cost more than what they
/// do.
///
/// Where threads read it, bodies are whole before they are put there, and sessions are not.
#[derive(Clone)]
pub struct DeskPlace {
    desk: Arc<RequestQueue>,
    alert_is_due: Rc<Cell<bool>>,
}

impl DeskPlace {
    pub fn new(desk: Arc<RequestQueue>) -> DeskPlace {
        DeskPlace { desk, alert_is_due: Rc::default() }
    }

    fn put(&self, arrival: Arrival) -> Result<(), Arrival> {
        self.desk.put(arrival)?;
        if !self.alert_is_due.replace(true) {
            let (desk, due) = (self.desk.clone(), self.alert_is_due.clone());
            // A task of tokio's: it has its turn when the sockets bring nothing more for now.
            tokio::task::spawn_local(async move {
                due.set(false);
                desk.alert();
            });
        }
        Ok(())
    }

    /// Puts it there when its body is whole.
    async fn put_whole(self, mut handed: Box<OffloadedRequest>) {
        // A body that fails is the fault of the exchange, which is dropped with it.
        if gather(&mut handed.body).await.is_ok()
            && let Err(Arrival::Exchange(handed)) = self.put(Arrival::Exchange(handed))
        {
            handed.answer.fail(Refused::Full.fault());
        }
    }
}

impl Place for DeskPlace {
    fn offer(&self, arrival: Arrival) -> Result<(), Refused> {
        match arrival {
            Arrival::Exchange(handed) if !handed.body.is_whole() && self.desk.serves_threads() => {
                net::task::spawn_local(self.clone().put_whole(handed));
                Ok(())
            }
            other => self.put(other).map_err(|_| Refused::Full),
        }
    }

    fn takes_sessions(&self) -> bool {
        !self.desk.serves_threads()
    }
}
