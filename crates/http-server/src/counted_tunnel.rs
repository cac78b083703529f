//! Runs a tunnel and counts what it carries.

use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;
use message::duplex::DirectionTraffic;
use message::{Duplex, Ending, Takeover, TunnelTraffic};
use telemetry::WorkerMetrics;

use crate::access_log::TunnelEntry;

/// Gives the client's side to what the connection was upgraded to. The entry is written at the end.
pub(crate) async fn run(
    client: impl Duplex + 'static,
    takeover: Takeover,
    entry: Option<Box<TunnelEntry>>,
    metrics: &WorkerMetrics,
) -> Ending {
    let traffic = entry.as_ref().map(|entry| entry.traffic().clone()).unwrap_or_default();
    metrics.tunnels_active.add(1);
    let ending = takeover(Box::new(CountedDuplex { client, traffic })).await;
    metrics.tunnels_active.add(-1);
    ending
}

/// Counts the bytes of both directions.
struct CountedDuplex<D> {
    client: D,
    traffic: TunnelTraffic,
}

fn count(direction: &DirectionTraffic, bytes: usize) {
    direction.bytes.update(|count| count + bytes as u64);
}

impl<D: Duplex> Duplex for CountedDuplex<D> {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.client.poll_receive(cx).map_ok(|chunk| {
            count(&self.traffic.received, chunk.len());
            chunk
        })
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, chunk: &mut Bytes) -> Poll<io::Result<()>> {
        let before = chunk.len();
        let sent = self.client.poll_send(cx, chunk);
        count(&self.traffic.sent, before - chunk.len());
        sent
    }

    fn finish(&mut self) {
        self.client.finish();
    }

    fn poll_draining(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.client.poll_draining(cx)
    }

    fn traffic(&self) -> TunnelTraffic {
        self.traffic.clone()
    }
}
