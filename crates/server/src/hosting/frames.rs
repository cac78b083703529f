//! Role `frames`: a gateway sends exchanges over a Unix socket that the process inherits.

use std::rc::Rc;
use std::sync::Arc;

use apps::{DeskPlace, Place, frames};
use exchange::offload::{Limits, RequestQueue};
use net::Listener;

use super::http::inherited;
use super::orders::Leave;
use super::watchdog::tell_draining;
use super::{Announced, Process};
use crate::spec::WorkerSpec;
use crate::supervise::Word;

/// Serves until the process is to leave and its exchanges have ended.
pub(super) async fn serve(
    spec: &WorkerSpec,
    process: &Rc<Process>,
    desk: Arc<RequestQueue>,
    announced: Announced,
) -> Result<(), String> {
    let place = Rc::new(DeskPlace::new(desk));
    let mut doors = Vec::new();
    for listener in listeners(spec)? {
        let place = place.clone();
        doors.push(frames::serve(listener, move |one| place.offer(one), Limits::default()));
    }
    let leave = match process.link.say(&Word::Ready).await {
        Ok(()) => process.until_leaving(announced).await,
        Err(_) => Leave::Now,
    };
    tell_draining(process, doors.iter().map(frames::Serving::in_flight).sum()).await;
    process.application.drain();
    if let Leave::Within(within) = leave {
        let drained = async {
            for door in &doors {
                door.drain().await;
            }
        };
        tokio::select! {
            _ = net::timer::within(within, drained) => {}
            () = process.orders.at_once() => {}
        }
    }
    Ok(())
}

fn listeners(spec: &WorkerSpec) -> Result<Vec<Listener>, String> {
    let mut listeners = Vec::new();
    for one in inherited(spec)? {
        let name = one.name().to_owned();
        let wrong = |error: std::io::Error| format!("the socket {name}: {error}");
        for socket in one.listen(1).map_err(wrong)?.into_sockets() {
            listeners.push(socket.adopt().map_err(wrong)?);
        }
    }
    Ok(listeners)
}
