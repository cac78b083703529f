//! `connections`: the memory of an idle connection, and the effect of many of them on latency.
//!
//! Promises that every idle connection has received one response before it counts, and that all of
//! them are closed when the `Idle` is dropped.

use super::probe::{ask, connect};
use super::{Case, Kind, Scenario, Serve};
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "connections",
    about: "memory of idle connections, and latency with them",
    cases: &[Case {
        name: "connections",
        about: "GET of four bytes by 100 connections along with the idle ones.",
        replays: None,
        serve: Serve::Hello,
        kind: Kind::Idle,
    }],
    by_default: false,
};

/// Descriptors that are left for everything else.
pub(crate) const DESCRIPTORS_KEPT: usize = 1024;
/// Ports that are left for everything else.
const PORTS_KEPT: usize = 4096;

/// Connections that were answered once and now say nothing.
#[derive(Debug)]
pub(crate) struct Idle {
    streams: Vec<TcpStream>,
    address: SocketAddr,
    request: Vec<u8>,
}

impl Idle {
    /// None yet; each will ask this once.
    pub(crate) fn new(address: SocketAddr, request: Vec<u8>) -> Self {
        Self { streams: Vec::new(), address, request }
    }

    /// Opens connections until there are `count`, or an error says that there is no time.
    pub(crate) fn grow(&mut self, count: usize, deadline: Instant) -> io::Result<()> {
        while self.streams.len() < count {
            let mut stream = connect(self.address, deadline)?;
            ask(&mut stream, &self.request, deadline)?;
            self.streams.push(stream);
        }
        Ok(())
    }
}

/// How many idle connections this machine has room for, at most `wanted`: each needs descriptors
/// here and in the server, and a port.
pub(crate) fn room_for(wanted: usize) -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| {
        line.strip_prefix("Max open files")?.split_whitespace().next()?.parse::<usize>().ok()
    });
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ports = range.split_whitespace().filter_map(|port| port.parse::<usize>().ok());
    let ports = ports.next().zip(ports.next()).map(|(low, high)| high.saturating_sub(low));
    // A proxy wants to have two for each, whether or not it will use both.
    let descriptors = files.map_or(wanted, |files| (files / 2).saturating_sub(DESCRIPTORS_KEPT));
    let ports = ports.map_or(wanted, |ports| ports.saturating_sub(PORTS_KEPT));
    wanted.min(descriptors).min(ports)
}
