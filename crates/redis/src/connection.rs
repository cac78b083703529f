//! One connection: it is set up before it is used, and dropped after any failure.

use std::io;

use net::tls::CertificateName;
use net::{Outgoing, Resolver, Stream};
use store::client::decode;
use store::{RedisAddress, Reply};
use wire::resp::reply::Reader;

use crate::command::{Script, plain};
use crate::error::RedisError;
use crate::limits::REPLY;
use crate::section::RedisPlan;

pub(crate) struct RedisConnection {
    stream: Stream,
    address: String,
    input: Vec<u8>,
    reader: Reader,
}

/// What a connection is used for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'a> {
    /// Commands about keys; the scripts are loaded.
    Keys(&'a [Script]),
    /// Questions to a Sentinel.
    Sentinel,
}

impl RedisConnection {
    /// Connects, authenticates, selects the database and loads the scripts. The caller sets the
    /// time-out.
    pub(crate) async fn open(
        address: &RedisAddress,
        plan: &RedisPlan,
        names: &Resolver,
        purpose: Purpose<'_>,
    ) -> Result<RedisConnection, RedisError> {
        let shown = address.to_string();
        let stream = connect(address, plan, names).await;
        let stream = stream.map_err(|why| RedisError::unreachable(&shown, &why))?;
        let (input, reader) = (Vec::new(), Reader::default());
        let mut connection = RedisConnection { stream, address: shown, input, reader };
        let commands = set_up(plan, purpose);
        let bytes = commands.concat();
        let replies = connection.exchange(bytes, commands.len()).await;
        let replies = replies.map_err(|error| RedisError::Unreachable(error.to_string()))?;
        let is_password = |at: usize| at == 0 && credentials(plan, purpose).1.is_some();
        for (at, reply) in replies.iter().enumerate() {
            let Reply::Refused(why) = reply else { continue };
            // A server that does not know AUTH repeats its arguments.
            let code = why.split(' ').next().unwrap_or_default();
            let why = match is_password(at) {
                true => format!("the credentials were rejected ({code})"),
                false => why.clone(),
            };
            return Err(RedisError::unreachable(&connection.address, &why));
        }
        Ok(connection)
    }

    /// Sends commands together and returns one reply for each.
    pub(crate) async fn exchange(
        &mut self,
        commands: Vec<u8>,
        count: usize,
    ) -> Result<Vec<Reply>, RedisError> {
        let mut outgoing = Outgoing::default();
        outgoing.push(commands.into());
        let sent = self.stream.send_all(&mut outgoing).await;
        sent.map_err(|error| RedisError::lost(&self.address, &error))?;
        let mut replies = Vec::with_capacity(count);
        while replies.len() < count {
            self.read_replies(&mut replies, count)?;
            if replies.len() < count {
                let chunk = self.stream.receive().await;
                let chunk = chunk.map_err(|error| RedisError::lost(&self.address, &error))?;
                if chunk.is_empty() {
                    let why = "the server closed the connection";
                    return Err(RedisError::lost(&self.address, &why));
                }
                self.input.extend_from_slice(&chunk);
            }
        }
        if !self.input.is_empty() {
            let why = "the server sent more replies than commands";
            return Err(RedisError::lost(&self.address, &why));
        }
        Ok(replies)
    }

    fn read_replies(&mut self, replies: &mut Vec<Reply>, count: usize) -> Result<(), RedisError> {
        let malformed = |why: &str| RedisError::lost(&self.address, &why);
        let mut at = 0;
        while replies.len() < count {
            let rest = &self.input[at..];
            let read = self.reader.read(rest, &REPLY).map_err(|fault| malformed(fault.text()))?;
            let Some(length) = read else { break };
            let reply = decode(&rest[..length], &self.reader);
            replies.push(reply.map_err(|error| malformed(&error.to_string()))?);
            at += length;
        }
        self.input.drain(..at);
        Ok(())
    }

    /// The address, for errors.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

/// User and password of `AUTH`.
fn credentials<'p>(
    plan: &'p RedisPlan,
    purpose: Purpose<'_>,
) -> (Option<&'p str>, Option<&'p [u8]>) {
    match purpose {
        Purpose::Keys(_) => plan.credentials(),
        Purpose::Sentinel => plan.sentinel_credentials(),
    }
}

/// The commands that a connection begins with.
fn set_up(plan: &RedisPlan, purpose: Purpose<'_>) -> Vec<Vec<u8>> {
    let mut commands = Vec::new();
    match credentials(plan, purpose) {
        (_, None) => {}
        (None, Some(password)) => commands.push(plain(&[b"AUTH", password])),
        (Some(user), Some(password)) => {
            commands.push(plain(&[b"AUTH", user.as_bytes(), password]));
        }
    }
    if let Purpose::Keys(scripts) = purpose {
        if plan.database() != 0 {
            commands.push(plain(&[b"SELECT", plan.database().to_string().as_bytes()]));
        }
        for script in scripts {
            commands.push(plain(&[b"SCRIPT", b"LOAD", script.text.as_bytes()]));
        }
    }
    commands
}

async fn connect(
    address: &RedisAddress,
    plan: &RedisPlan,
    names: &Resolver,
) -> Result<Stream, String> {
    let text = |error: io::Error| error.to_string();
    let stream = address.connect(names).await.map_err(text)?;
    let Some(tls) = plan.tls.as_ref().filter(|_| address.is_secure()) else { return Ok(stream) };
    let of_host = || CertificateName::new(address.host_and_port()?.0);
    let name = plan.server_name().or_else(of_host);
    let name = name.ok_or_else(|| "the host cannot be the name of a certificate".to_owned())?;
    stream.connect_tls(tls, &name).await.map_err(text)
}
