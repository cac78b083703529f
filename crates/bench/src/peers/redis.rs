//! redis-server: the program that PING was written for, in memory only.

use super::{BACKLOG, CONNECTIONS_MAX, Peer, Program, Role, Setup, Site};

pub(super) const PEER: Peer = Peer {
    name: "redis-server",
    program: Program::Installed {
        names: &["redis-server", "valkey-server"],
        version: "--version",
        how: "apt-get install redis-server",
    },
    start_seconds: 0.2,
    setup,
};

fn setup(site: &Site) -> Option<Setup> {
    // Commands run in one thread, whatever io-threads says.
    if site.role != Role::Ping || site.workers > 1 {
        return None;
    }
    let (host, port) = (site.address.ip().to_string(), site.address.port().to_string());
    let (backlog, clients) = (BACKLOG.to_string(), CONNECTIONS_MAX.to_string());
    let words = [
        &["--bind", &host, "--port", &port, "--save", "", "--appendonly", "no"][..],
        &["--tcp-backlog", &backlog, "--maxclients", &clients, "--loglevel", "warning"],
    ];
    let page = "https://raw.githubusercontent.com/redis/redis/7.0/redis.conf";
    Some(Setup::new(&words.concat()).note("all arguments", page))
}
