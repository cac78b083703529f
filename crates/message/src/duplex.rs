//! A connection after an upgrade (extension point 3): chunk source, sink, and why it ended.
//!
//! Tunnels, WebSocket, Lua and applications use only this; none of them sees a socket, so the same
//! code will run over an HTTP/2 stream.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;

/// A future of this worker.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Why a duplex connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Both sides have ended regularly.
    Finished,
    /// The client broke off.
    ClientGone,
    /// The other side (upstream, script, application) broke the connection.
    OtherGone,
    /// Nothing was transferred for longer than allowed.
    Idle,
}

/// Both directions of an upgraded connection.
pub trait Duplex {
    /// The next bytes; an empty chunk once the other side has finished.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>>;

    /// Takes the chunk and sends it; ready once all of it is with the kernel.
    fn poll_send(&mut self, cx: &mut Context<'_>, chunk: &mut Bytes) -> Poll<io::Result<()>>;

    /// Says that nothing more will be sent.
    fn finish(&mut self);

    /// Ready once the server drains, so that a protocol can close regularly. Not every connection
    /// reports it.
    fn poll_draining(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// The counters of the connection's line in the access log, for the new owner to add what it
    /// knows.
    fn traffic(&self) -> TunnelTraffic {
        TunnelTraffic::default()
    }
}

/// What an upgraded connection has carried: from the client, and to it.
#[derive(Clone, Debug, Default)]
pub struct TunnelTraffic {
    pub received: Rc<DirectionTraffic>,
    pub sent: Rc<DirectionTraffic>,
}

/// What one direction of an upgraded connection has carried.
#[derive(Debug, Default)]
pub struct DirectionTraffic {
    pub bytes: Cell<u64>,
    /// Text and binary messages, if the owner counts them.
    pub messages: Cell<Option<u64>>,
}

/// Uses the client's connection after its 101 was sent.
pub type Takeover = Box<dyn FnOnce(Box<dyn Duplex>) -> LocalFuture<'static, Ending>>;

/// Receives from a duplex; an empty chunk is the end.
pub async fn receive(duplex: &mut dyn Duplex) -> io::Result<Bytes> {
    poll_fn(|cx| duplex.poll_receive(cx)).await
}

/// Sends a whole chunk.
pub async fn send(duplex: &mut dyn Duplex, mut chunk: Bytes) -> io::Result<()> {
    poll_fn(|cx| duplex.poll_send(cx, &mut chunk)).await
}
