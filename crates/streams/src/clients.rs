//! How many connections each client has, over all workers: for `connections_per_client`.
//!
//! Taken once when a connection begins and once when it ends, and only where the limit is set. An
//! address without connections is not stored, so the table is bounded by the connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of each client of a stream.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    open: Mutex<HashMap<IpAddr, u32>>,
}

impl Clients {
    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection of a client, unless it has `most` already.
    pub(crate) fn acquire(self: &Arc<Self>, client: IpAddr, most: u32) -> Option<ClientPermit> {
        let client = network(client);
        let mut open = self.open();
        let count = open.entry(client).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(ClientPermit { clients: self.clone(), client })
    }
}

/// A client of IPv6 has a whole /64, and counts as one.
pub(crate) fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        address => address,
    }
}

/// One connection of a client.
#[derive(Debug)]
pub(crate) struct ClientPermit {
    clients: Arc<Clients>,
    client: IpAddr,
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        let mut open = self.clients.open();
        if let Some(count) = open.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_limit_and_leaves_nothing_behind() {
        let clients = Arc::new(Clients::default());
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let first = clients.acquire(ip("192.0.2.1"), 2);
        let second = clients.acquire(ip("::ffff:192.0.2.1"), 2);
        assert!(first.is_some() && second.is_some());
        assert!(clients.acquire(ip("192.0.2.1"), 2).is_none());
        assert!(clients.acquire(ip("192.0.2.2"), 2).is_some());
        drop(first);
        assert!(clients.acquire(ip("192.0.2.1"), 2).is_some());
        let of_v6 = clients.acquire(ip("2001:db8::1"), 1);
        assert!(clients.acquire(ip("2001:db8::2"), 1).is_none(), "the same /64");
        assert!(clients.acquire(ip("2001:db8:0:1::1"), 1).is_some());
        drop((second, of_v6));
        assert!(clients.open().is_empty());
    }
}
