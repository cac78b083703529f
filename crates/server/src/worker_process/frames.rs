//! Role `frames`: a gateway sends exchanges over a Unix socket that the process inherits.

use std::rc::Rc;
use std::sync::Arc;

use apps::{AppBackend, QueueBackend, frames};
use net::Listener;
use offload::{Limits, RequestQueue};

use super::commands::LeaveMode;
use super::http::inherited;
use super::watchdog::report_draining;
use super::{Process, ReadinessReceiver};
use crate::spec::WorkerSpec;
use crate::supervise::WorkerMessage;

/// Serves until the process is told to stop and its requests have ended.
pub(super) async fn serve(
    spec: &WorkerSpec,
    process: &Rc<Process>,
    queue: Arc<RequestQueue>,
    readiness: ReadinessReceiver,
) -> Result<(), String> {
    let backend = Rc::new(QueueBackend::new(queue));
    let mut servers = Vec::new();
    for listener in listeners(spec)? {
        let backend = backend.clone();
        servers.push(frames::serve(listener, move |one| backend.offer(one), Limits::default()));
    }
    let leave = match process.channel.send_message(&WorkerMessage::Ready).await {
        Ok(()) => process.until_leaving(readiness).await,
        Err(_) => LeaveMode::Now,
    };
    report_draining(process, servers.iter().map(frames::FrameServer::in_flight).sum()).await;
    if let LeaveMode::Within(within) = leave {
        process.application.begin_draining(within);
        let drained = async {
            for server in &servers {
                server.drain().await;
            }
        };
        tokio::select! {
            _ = net::timer::within(within, drained) => {}
            () = process.commands.at_once() => {}
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
