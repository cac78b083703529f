//! The state that the driver of a connection and its streams share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use message::http2::Chunk;
use net::WakeHandle;
use wire::h2::{Connection as Protocol, StreamKey};

use crate::h1::ConnectionIo;
use crate::listener_snapshot::Service;
use message::ConnectionFacts;

pub(super) struct Http2Connection {
    pub(super) io: Rc<ConnectionIo>,
    pub(super) service: Rc<Service>,
    pub(super) facts: Rc<ConnectionFacts>,
    pub(super) protocol: RefCell<Protocol<Chunk>>,
    pub(super) driver: WakeHandle,
    /// The driver runs: it need not be woken.
    pub(super) is_running: Cell<bool>,
}

impl Http2Connection {
    /// Makes the driver send what was given to the protocol.
    pub(super) fn wake(&self) {
        if !self.is_running.get() {
            self.driver.wake();
        }
    }

    /// Returns true if the driver is handling events and more input is pending.
    pub(super) fn has_more_events(&self) -> bool {
        self.is_running.get() && self.protocol.borrow().has_input()
    }

    /// The application has used content of a stream.
    pub(super) fn release(&self, key: StreamKey, length: usize) {
        let mut protocol = self.protocol.borrow_mut();
        protocol.release(key, length);
        if protocol.wants_output() {
            drop(protocol);
            self.wake();
        }
    }
}
