//! The smallest server on the serving loop: one worker, one route, one handler that answers at
//! once.
//!
//! What the loop alone costs, when it is measured against the floor.

#[path = "served/mod.rs"]
mod served;

use std::rc::Rc;

use message::{HandlerResult, Request, Response};
use plugin::{Handler, MaybeFuture};

struct Hello;

impl Handler for Hello {
    fn name(&self) -> &'static str {
        "hello"
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        Ok(Response::text(200, "hello")).into()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let bound = served::listen(address.parse()?)?;
    eprintln!("listening on {}", bound.0);
    net::worker::block_on_local(served::serve_route(bound, Vec::new(), Rc::new(Hello)))?;
    Ok(())
}
