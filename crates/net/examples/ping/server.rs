//! PING with a task per connection: `net::serve_on` and a handler.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use net::{
    Bind, ListenOptions, Listening, Outgoing, Peer, ServeOptions, Serving, Stream, detach,
    inherited, serve_on, until_stopping,
};
use wire::resp;

/// Limits that fit PING and its argument.
const LIMITS: resp::Limits = resp::Limits { line: 4096, args: 16, bulk: 4096 };

/// Inherited sockets, or one bound to the address.
pub(crate) fn listening(address: SocketAddr, workers: usize) -> io::Result<Vec<Listening>> {
    let inherited = inherited().map_err(io::Error::other)?;
    if !inherited.is_empty() {
        return inherited.into_iter().map(|socket| socket.listen(workers)).collect();
    }
    let options = ListenOptions::default();
    let bound =
        Listening::bind(&Bind::Tcp(address), workers, &options).map_err(io::Error::other)?;
    Ok(vec![bound])
}

pub(crate) fn start(listening: Vec<Listening>, workers: usize) -> io::Result<Serving> {
    serve_on(listening, &ServeOptions { workers, ..ServeOptions::default() }, serve_connection)
}

async fn serve_connection(stream: Stream, _: Peer) {
    let mut connection = Connection::default();
    while let Some(Ok(chunk)) = until_stopping(stream.receive()).await {
        if chunk.is_empty() {
            return;
        }
        connection.handle(chunk);
        // One write for all commands of one read.
        let sent = stream.send_all(&mut connection.replies).await;
        if sent.is_err() || connection.closing {
            return;
        }
    }
}

/// Per-connection state.
#[derive(Default)]
pub(crate) struct Connection {
    /// The beginning of an incomplete command.
    incomplete: BytesMut,
    args: Vec<Range<usize>>,
    pub(crate) replies: Outgoing,
    /// The client violated the protocol; the last reply reports it.
    pub(crate) closing: bool,
}

impl Connection {
    /// Replies to every complete command.
    pub(crate) fn handle(&mut self, chunk: Bytes) {
        let mut replies = Vec::with_capacity(128);
        if self.incomplete.is_empty() {
            let taken = self.reply_to(&chunk, &mut replies);
            self.incomplete = detach(&chunk[taken..]);
        } else {
            let mut incomplete = std::mem::take(&mut self.incomplete);
            incomplete.extend_from_slice(&chunk);
            let taken = self.reply_to(&incomplete, &mut replies);
            self.incomplete = incomplete.split_off(taken);
        }
        self.replies.push(replies.into());
    }

    /// Returns how many bytes the commands took.
    fn reply_to(&mut self, mut input: &[u8], replies: &mut Vec<u8>) -> usize {
        let whole = input.len();
        while !self.closing {
            match resp::parse_command(input, &LIMITS, &mut self.args) {
                Ok(Some(taken)) => {
                    reply(&self.args, input, replies);
                    input = &input[taken..];
                }
                Ok(None) => break,
                Err(fault) => {
                    resp::error(fault.text().as_bytes(), replies);
                    self.closing = true;
                }
            }
        }
        whole - input.len()
    }
}

fn reply(args: &[Range<usize>], input: &[u8], replies: &mut Vec<u8>) {
    let Some(command) = args.first() else { return };
    match &args[1..] {
        _ if !input[command.clone()].eq_ignore_ascii_case(b"PING") => {
            resp::error(b"ERR unknown command, this server answers PING", replies);
        }
        [] => resp::simple_string(b"PONG", replies),
        [message] => resp::bulk(&input[message.clone()], replies),
        _ => resp::error(b"ERR wrong number of arguments for 'ping' command", replies),
    }
}
