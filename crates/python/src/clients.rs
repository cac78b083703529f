//! Addresses of clients as Python objects.
//!
//! The requests of a connection have the same address, so its objects are stored until another
//! client needs their entry. Promises a fixed number of entries.

use std::net::{IpAddr, SocketAddr};

use net::Peer;
use offload::Head;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::gil::GilCell;

/// Clients whose objects are stored; a power of two.
const ENTRIES: usize = 256;

/// Returns the client of a request. A trusted proxy names the client's address, but not its port.
pub(crate) fn address_of(head: &Head) -> SocketAddr {
    match head.peer {
        Peer::Tcp(peer) if peer.ip().to_canonical() == head.client_ip => peer,
        _ => SocketAddr::new(head.client_ip, 0),
    }
}

/// A client and its objects.
type Entry = Option<(SocketAddr, Py<PyTuple>)>;

/// The objects of the latest clients, by a hash of the address.
pub(crate) struct Clients(GilCell<Vec<Entry>>);

impl Clients {
    pub(crate) fn new() -> Clients {
        Clients(GilCell::new((0..ENTRIES).map(|_| None).collect()))
    }

    /// Returns the objects of an address; `make` creates them if they are not stored.
    pub(crate) fn get<'py>(
        &self,
        py: Python<'py>,
        address: SocketAddr,
        make: impl FnOnce(SocketAddr) -> PyResult<Bound<'py, PyTuple>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let entry = entry_of(&address);
        let stored = match &self.0.get()[entry] {
            Some((known, objects)) if *known == address => Some(objects.bind(py).clone()),
            _ => None,
        };
        if let Some(objects) = stored {
            return Ok(objects);
        }
        let objects = make(address)?;
        let before = self.0.get()[entry].replace((address, objects.clone().unbind()));
        drop(before);
        Ok(objects)
    }
}

/// Connections of one client differ in the port; clients behind a proxy in the address only.
fn entry_of(address: &SocketAddr) -> usize {
    let last = match address.ip() {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(ip) => ip.octets()[15],
    };
    (usize::from(address.port()) ^ usize::from(last)) % ENTRIES
}
