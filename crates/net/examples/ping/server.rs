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

/// PING and its argument, and no more than that.
const LIMITS: resp::Limits = resp::Limits { line: 4096, args: 16, bulk: 4096 };

/// Sockets that were handed over, or else one for the address.
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
    serve_on(listening, &ServeOptions { workers, ..ServeOptions::default() }, talk)
}

async fn talk(stream: Stream, _: Peer) {
    let mut conversation = Conversation::default();
    while let Some(Ok(chunk)) = until_stopping(stream.receive()).await {
        if chunk.is_empty() {
            return;
        }
        conversation.hear(chunk);
        // One write for all that came with one read, however many commands it holds.
        let sent = stream.send_all(&mut conversation.replies).await;
        if sent.is_err() || conversation.over {
            return;
        }
    }
}

/// What one client and we have said.
#[derive(Default)]
pub(crate) struct Conversation {
    /// The beginning of a command whose end has not come.
    rest: BytesMut,
    args: Vec<Range<usize>>,
    pub(crate) replies: Outgoing,
    /// The client broke the protocol: the last reply says so.
    pub(crate) over: bool,
}

impl Conversation {
    /// Replies to every command that is whole.
    pub(crate) fn hear(&mut self, chunk: Bytes) {
        let mut replies = Vec::with_capacity(128);
        if self.rest.is_empty() {
            let taken = self.reply_to(&chunk, &mut replies);
            self.rest = detach(&chunk[taken..]);
        } else {
            let mut rest = std::mem::take(&mut self.rest);
            rest.extend_from_slice(&chunk);
            let taken = self.reply_to(&rest, &mut replies);
            self.rest = rest.split_off(taken);
        }
        self.replies.push(replies.into());
    }

    /// Returns how many bytes the commands took.
    fn reply_to(&mut self, mut said: &[u8], replies: &mut Vec<u8>) -> usize {
        let whole = said.len();
        while !self.over {
            match resp::parse_command(said, &LIMITS, &mut self.args) {
                Ok(Some(taken)) => {
                    reply(&self.args, said, replies);
                    said = &said[taken..];
                }
                Ok(None) => break,
                Err(fault) => {
                    resp::error(fault.text().as_bytes(), replies);
                    self.over = true;
                }
            }
        }
        whole - said.len()
    }
}

fn reply(args: &[Range<usize>], said: &[u8], replies: &mut Vec<u8>) {
    let Some(command) = args.first() else { return };
    match &args[1..] {
        _ if !said[command.clone()].eq_ignore_ascii_case(b"PING") => {
            resp::error(b"ERR unknown command, this server answers PING", replies);
        }
        [] => resp::simple_string(b"PONG", replies),
        [message] => resp::bulk(&said[message.clone()], replies),
        _ => resp::error(b"ERR wrong number of arguments for 'ping' command", replies),
    }
}
