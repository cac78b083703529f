//! The choice of a port for a server that is started with its address as an argument.
//!
//! Promises that the port is outside the range from which the kernel gives ports to clients and to
//! listeners on port 0, that nothing listens on it when it is claimed, and that no other test or
//! benchmark on this machine gets it as long as the claim exists. A server that another program
//! starts on a fixed port may still take it.
#![allow(clippy::disallowed_types, reason = "asks the kernel whether a port is in use")]

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};

/// Ports below are assigned to services (IANA), and programs use many of them.
const FIRST: u16 = 10_240;

/// A port of 127.0.0.1, claimed until this is dropped.
#[derive(Debug)]
pub struct ClaimedPort {
    port: u16,
    /// Bound to an abstract name with the port in it. The kernel gives the name to one socket of
    /// the network namespace, and frees it when the process ends, however it ends.
    _claim: UnixDatagram,
}

impl ClaimedPort {
    /// Claims a port without a listener, chosen at random.
    pub fn any() -> io::Result<Self> {
        let candidates = candidates(ephemeral_ports());
        let start = fastrand::usize(..candidates.len());
        let ports = candidates[start..].iter().chain(&candidates[..start]);
        for &port in ports {
            match Self::of(port) {
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                result => return result,
            }
        }
        Err(io::Error::new(ErrorKind::AddrInUse, "all ports are in use"))
    }

    /// Claims this port; `AddrInUse` if it is claimed or has a listener.
    fn of(port: u16) -> io::Result<Self> {
        let name = UnixAddress::from_abstract_name(format!("tidegate-claimed-port-{port}"))?;
        let claim = UnixDatagram::bind_addr(&name)?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        Ok(Self { port, _claim: claim })
    }

    /// Claims a port until this process ends, for a test that starts a server there repeatedly.
    pub fn for_this_process() -> io::Result<u16> {
        let claim = Self::any()?;
        let port = claim.port;
        std::mem::forget(claim);
        Ok(port)
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

/// The ports that the kernel gives to connections of clients and to listeners on port 0; `None` if
/// it does not say.
pub fn ephemeral_ports() -> Option<RangeInclusive<u16>> {
    parse(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)
}

/// Reads the two numbers of `ip_local_port_range`.
fn parse(text: &str) -> Option<RangeInclusive<u16>> {
    let mut ports = text.split_whitespace();
    let range = ports.next()?.parse().ok()?..=ports.next()?.parse().ok()?;
    ports.next().is_none().then_some(range)
}

/// Returns the ports outside the ephemeral ones; all, if there are none.
fn candidates(ephemeral: Option<RangeInclusive<u16>>) -> Vec<u16> {
    let all = FIRST..=u16::MAX;
    let outside = |port: &u16| ephemeral.as_ref().is_none_or(|range| !range.contains(port));
    let outside: Vec<u16> = all.clone().filter(outside).collect();
    if outside.is_empty() { all.collect() } else { outside }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_claimed_once_until_the_claim_ends() {
        let claim = ClaimedPort::any().unwrap();
        let port = claim.address().port();
        assert_eq!(ClaimedPort::of(port).unwrap_err().kind(), ErrorKind::AddrInUse);
        // The claim does not keep the server from it.
        drop(TcpListener::bind(claim.address()).unwrap());
        drop(claim);
        assert_eq!(ClaimedPort::of(port).unwrap().address().port(), port);
    }

    #[test]
    fn a_port_with_a_listener_is_not_claimed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(ClaimedPort::of(port).unwrap_err().kind(), ErrorKind::AddrInUse);
    }

    #[test]
    fn claims_that_exist_together_have_different_ports() {
        let claims: Vec<_> = (0..64).map(|_| ClaimedPort::any().unwrap()).collect();
        let mut ports: Vec<u16> = claims.iter().map(|claim| claim.address().port()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 64);
        let ephemeral = ephemeral_ports().unwrap();
        if candidates(Some(ephemeral.clone())).len() < usize::from(u16::MAX - FIRST) {
            assert!(ports.iter().all(|port| !ephemeral.contains(port)), "{ports:?}");
        }
    }

    #[test]
    fn ephemeral_ports_are_left_out_unless_there_are_no_others() {
        assert_eq!(parse("32768\t60999\n"), Some(32_768..=60_999));
        for text in ["", "32768", "1 2 3", "0 65536", "a b"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        let ports = candidates(parse("32768 60999"));
        assert_eq!((ports[0], ports[ports.len() - 1]), (FIRST, u16::MAX));
        assert!(!ports.contains(&32_768) && !ports.contains(&60_999));
        assert!(ports.contains(&32_767) && ports.contains(&61_000));
        assert_eq!(candidates(Some(1024..=u16::MAX)).len(), usize::from(u16::MAX - FIRST) + 1);
    }
}
