//! Addresses that the scripts of a server listen on.
//!
//! Promises that the VM of each worker, and of each generation, has a socket of its own on the same
//! address, and that an address of another process is an error.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use net::{Bind, BindError, BoundSocket, ListenOptions, Listening};

/// The addresses that scripts of this process have bound.
#[derive(Default)]
pub(crate) struct ScriptAddresses(Mutex<HashSet<SocketAddr>>);

impl ScriptAddresses {
    /// Returns a socket for one VM.
    pub(crate) fn bind(
        &self,
        bind: &Bind,
        options: &ListenOptions,
    ) -> Result<Option<BoundSocket>, BindError> {
        let single = || Ok(Listening::bind(bind, 1, options)?.into_sockets().pop());
        let address = match bind {
            // With port 0 each VM has a port of its own.
            Bind::Tcp(address) if address.port() != 0 => *address,
            Bind::Tcp(_) | Bind::Unix(_) => return single(),
        };
        // Held while an address is bound: of two workers one is the first.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bound = single();
        if bound.is_ok() {
            known.insert(address);
        } else if known.contains(&address) {
            return Listening::bind_additional(address, options).map(Some);
        }
        bound
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::ScriptAddresses;
    use net::{Bind, ListenOptions, Listening};

    #[test]
    fn vms_of_this_process_share_an_address_and_no_other() {
        let (addresses, options) = (ScriptAddresses::default(), ListenOptions::default());
        let any = Bind::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let other = Listening::bind(&any, 1, &options).unwrap();
        let taken = other.local().clone();
        assert!(addresses.bind(&taken, &options).is_err());
        drop(other);
        let bind = |_| addresses.bind(&taken, &options).unwrap().unwrap();
        assert_eq!((0..3).map(bind).collect::<Vec<_>>().len(), 3);
    }
}
