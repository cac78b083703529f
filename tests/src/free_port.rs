//! Ports for servers that are started with their address as an argument.

use claimed_port::ClaimedPort;

/// Returns a port of 127.0.0.1 that no client and no other test gets until this process ends.
pub fn free_port() -> u16 {
    ClaimedPort::for_this_process().expect("a free port")
}
