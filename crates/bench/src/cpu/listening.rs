//! Finds the process that listens at a local address.
//!
//! Owns reading the kernel's socket tables. Promises one process: the common ancestor of all
//! processes that have the socket open; `None` if there are several, or none is visible.

use super::{Stat, numbers, read};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// The state of a socket that listens, in tcp_states.h of the kernel.
const LISTEN: &str = "0A";

pub(crate) fn listener_at(address: SocketAddr) -> Option<u32> {
    let mut sockets = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        sockets.extend(listening(&read(Path::new(table)), address));
    }
    if sockets.is_empty() {
        return None;
    }
    let held = |pid: &u32| {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        let mut links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        links.any(|link| link.to_str().is_some_and(|link| sockets.contains(link)))
    };
    let holders: Vec<u32> = numbers(Path::new("/proc")).into_iter().filter(held).collect();
    let parent = |pid: u32| {
        Stat::read(Path::new(&format!("/proc/{pid}/stat"))).map_or(0, |stat| stat.parent)
    };
    root(&holders, parent)
}

/// Returns the link targets of the descriptors of each socket that listens there: proc_net(5).
fn listening(table: &str, address: SocketAddr) -> BTreeSet<String> {
    let is_there = |local: &str| {
        let (ip, port) = local.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let ip = ip_of(ip)?;
        Some(port == address.port() && (ip == address.ip() || ip.is_unspecified()))
    };
    let rows = table.lines().skip(1).map(|line| line.split_ascii_whitespace().collect());
    rows.filter_map(|row: Vec<&str>| {
        let (local, state, inode) = (row.get(1)?, row.get(3)?, row.get(9)?);
        let found = *state == LISTEN && is_there(local)?;
        found.then(|| format!("socket:[{inode}]"))
    })
    .collect()
}

/// Groups of four bytes, each as a number of this machine.
fn ip_of(hex: &str) -> Option<IpAddr> {
    let groups = hex.as_bytes().chunks(8).map(|group| {
        let number = u32::from_str_radix(std::str::from_utf8(group).ok()?, 16).ok()?;
        Some(number.to_ne_bytes())
    });
    let bytes = groups.collect::<Option<Vec<_>>>()?.concat();
    match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(four) => Some(IpAddr::from(four)),
        // A socket for both, bound to an address of IPv4, has it mapped.
        Err(_) => <[u8; 16]>::try_from(bytes).ok().map(|all| Ipv6Addr::from(all).to_canonical()),
    }
}

/// The one among them that no other one is an ancestor of.
fn root(holders: &[u32], parent: impl Fn(u32) -> u32) -> Option<u32> {
    let parents: BTreeMap<u32, u32> = holders.iter().map(|&pid| (pid, parent(pid))).collect();
    let mut roots = holders.iter().filter(|pid| !parents.contains_key(&parents[pid]));
    let first = *roots.next()?;
    roots.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::{listener_at, listening, root};
    use socket2::{Domain, Socket, Type};
    use std::net::{SocketAddr, TcpListener};

    /// Three rows of /proc/net/tcp, without most of what stands between state and inode.
    const TABLE: &str = "sl local rem st queues timer retrnsmt uid timeout inode\n\
        0: 0100007F:1F90 00000000:0000 0A 0:0 00:0 0 0 0 4711 1\n\
        1: 00000000:1F91 00000000:0000 0A 0:0 00:0 0 0 0 4712 1\n\
        2: 0100007F:1F90 0100007F:C350 01 0:0 00:0 0 0 0 4713 1\n";

    #[test]
    fn sockets_that_listen_are_found_in_the_table() {
        let at = |address: &str| {
            listening(TABLE, address.parse().unwrap()).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(at("127.0.0.1:8080"), ["socket:[4711]"]);
        assert_eq!(at("127.0.0.1:8081"), ["socket:[4712]"], "listens everywhere");
        assert!(at("127.0.0.2:8080").is_empty() && at("127.0.0.1:8082").is_empty());
        let six = "head\n 0: 0000000000000000FFFF00000100007F:1F90 00:0 0A 0 0 0 0 0 99 1\n";
        let found = listening(six, "127.0.0.1:8080".parse().unwrap());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["socket:[99]"]);
    }

    #[test]
    fn a_master_stands_for_its_workers() {
        let parent = |pid| if pid > 10 { 10 } else { 1 };
        assert_eq!(root(&[10, 11, 12], parent), Some(10));
        assert_eq!(root(&[5, 10, 11], parent), None, "two servers at one address");
        assert_eq!(root(&[], parent), None);
    }

    #[test]
    fn the_listening_process_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(listener_at(address), Some(std::process::id()));
        // Bound, so that no other process gets its port, and without a listener.
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        bound.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let address = bound.local_addr().unwrap().as_socket().unwrap();
        assert_eq!(listener_at(address), None);
    }
}
