//! A server whose requests are answered by blocking code on a separate thread (extension point 8).
//!
//! `cargo run -p http-server --example elsewhere -- 127.0.0.1:8080`, then
//! `curl -d 'some words' localhost:8080` or `curl localhost:8080/count?to=5`.

mod answering;
#[path = "../served/mod.rs"]
mod served;

use std::rc::Rc;

use offload::{Limits, OffloadHandler};

/// Exchanges that may wait for the thread.
const WAITING_MAX: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let socket = served::listen(address.parse()?)?;
    eprintln!("listening on {}", socket.0);
    let queue = answering::start(WAITING_MAX)?;
    let handler = Rc::new(OffloadHandler::new(queue, Limits::default()));
    net::worker::block_on_local(served::serve_route(socket, Vec::new(), handler))?;
    Ok(())
}
