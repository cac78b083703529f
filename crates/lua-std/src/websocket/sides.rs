//! The two ways a socket is bound to a connection.
//!
//! On the server it drives the client's [`Duplex`] after the 101. On the client the tunnel of
//! `http-client` drives the server's connection, and this is the other end. Promises that both end:
//! by the closing handshake, with the connection, or by the time-out of closing.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use message::{Duplex, Ending, Takeover};

use super::socket::Socket;

/// Chunks of one connection that are handled before other tasks of the worker run.
const RECEIVES_AT_ONCE: u32 = 32;

/// Drives the client's connection.
pub(super) fn serve(socket: Rc<Socket>) -> Takeover {
    Box::new(move |mut duplex| {
        Box::pin(async move {
            let mut sending = false;
            let ending = poll_fn(|cx| poll(&socket, duplex.as_mut(), &mut sending, cx)).await;
            socket.ended();
            ending
        })
    })
}

fn poll(
    socket: &Socket,
    duplex: &mut dyn Duplex,
    sending: &mut bool,
    cx: &mut Context<'_>,
) -> Poll<Ending> {
    socket.remember(cx);
    for round in 0.. {
        if let Poll::Ready(Err(_)) = poll_send(socket, duplex, sending, cx) {
            return Poll::Ready(Ending::ClientGone);
        }
        if socket.is_done() && !*sending {
            duplex.finish();
            return Poll::Ready(Ending::Finished);
        }
        if socket.is_deaf() || socket.is_crowded() {
            break;
        }
        if round == RECEIVES_AT_ONCE {
            cx.waker().wake_by_ref();
            break;
        }
        match duplex.poll_receive(cx) {
            Poll::Pending => break,
            Poll::Ready(Ok(chunk)) if !chunk.is_empty() => socket.receive(&chunk),
            Poll::Ready(_) => return Poll::Ready(Ending::ClientGone),
        }
    }
    socket.poll_timeout(cx).map(|()| Ending::Idle)
}

/// Sends all output; ready once the kernel has it.
fn poll_send(
    socket: &Socket,
    duplex: &mut dyn Duplex,
    sending: &mut bool,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    loop {
        let mut chunk = Bytes::new();
        if !*sending {
            match socket.next_chunk() {
                Some(next) => chunk = next,
                None => return Poll::Ready(Ok(())),
            }
        }
        *sending = true;
        std::task::ready!(duplex.poll_send(cx, &mut chunk))?;
        *sending = false;
    }
}

/// Connects the socket to a tunnel to the server.
pub(super) fn connect(socket: Rc<Socket>, tunnel: Takeover) {
    net::task::spawn_local(async move {
        let mut tunnel = pin!(tunnel(Box::new(SocketDuplex(socket.clone()))));
        poll_fn(|cx| match tunnel.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => {
                socket.remember(cx);
                socket.poll_timeout(cx)
            }
        })
        .await;
        socket.ended();
    });
}

/// Our end of the tunnel.
struct SocketDuplex(Rc<Socket>);

impl Duplex for SocketDuplex {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if let Some(chunk) = self.0.next_chunk() {
            return Poll::Ready(Ok(chunk));
        }
        if self.0.is_done() || self.0.is_over() {
            return Poll::Ready(Ok(Bytes::new()));
        }
        self.0.remember(cx);
        Poll::Pending
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, chunk: &mut Bytes) -> Poll<io::Result<()>> {
        if self.0.is_crowded() {
            self.0.remember(cx);
            return Poll::Pending;
        }
        self.0.receive(&std::mem::take(chunk));
        Poll::Ready(Ok(()))
    }

    fn finish(&mut self) {
        self.0.ended();
    }
}
