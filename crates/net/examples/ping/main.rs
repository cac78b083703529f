//! Replies to PING as a Redis server does, on raw TCP.
//!
//! ```text
//! cargo run --release -p net --example ping -- [--driver] [ADDRESS]     (default 127.0.0.1:6380)
//! redis-benchmark -p 6380 -t ping -n 100000 -P 16 -q
//! ```
//!
//! Without `--driver` each connection has a task; with it each worker drives all its connections
//! from one. Sockets passed by systemd (`systemd-socket-activate -l 6380 ping`) are served instead
//! of ADDRESS.

use std::io;
use std::net::SocketAddr;

use net::worker;

mod driven;
mod server;

fn main() -> io::Result<()> {
    let mut driver = false;
    let mut address = SocketAddr::from(([127, 0, 0, 1], 6380));
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--driver" => driver = true,
            other => address = other.parse().map_err(io::Error::other)?,
        }
    }
    let workers = worker::allowed_cores().len().max(1);
    let listening = server::listening(address, workers)?;
    for listening in &listening {
        eprintln!("serving PING on {}", listening.local());
    }
    if driver {
        let workers = driven::start(listening, workers)?;
        workers.into_iter().for_each(|worker| drop(worker.join()));
    } else {
        server::start(listening, workers)?.join();
    }
    Ok(())
}
