//! Where a client connects: the socket of a store, or a Redis server.
//!
//! Owns connecting and the commands that open a session. An error names the server and never shows
//! how the client logs in.

use std::fmt;
use std::io;
use std::path::PathBuf;

use net::tls::{CertificateName, ClientOptions, ClientTls, TlsVersion};
use net::{Resolver, Stream};

use crate::client::Request;
use crate::redis_url::RedisUrl;

pub(super) enum Endpoint {
    /// The Unix socket of a store.
    Store(PathBuf),
    Redis(Box<RedisServer>),
}

/// A Redis server, and what is needed to connect to it.
pub(super) struct RedisServer {
    url: RedisUrl,
    resolver: Resolver,
    tls: Option<(ClientTls, CertificateName)>,
}

impl RedisServer {
    /// Fails if the system has no certificate authorities, or the host can have no certificate.
    pub(super) fn new(url: RedisUrl) -> Result<RedisServer, String> {
        let resolver = Resolver::system();
        let tls = if url.address.is_secure() { Some(identity(&url)?) } else { None };
        Ok(RedisServer { url, resolver, tls })
    }

    async fn connect(&self) -> io::Result<Stream> {
        self.secure(self.url.address.connect(&self.resolver).await?).await
    }

    async fn secure(&self, stream: Stream) -> io::Result<Stream> {
        match &self.tls {
            Some((tls, name)) => stream.connect_tls(tls, name).await,
            None => Ok(stream),
        }
    }
}

fn identity(url: &RedisUrl) -> Result<(ClientTls, CertificateName), String> {
    let host = url.address.host_and_port().map_or("", |(host, _)| host);
    let name = CertificateName::new(host);
    let name = name.ok_or_else(|| format!("no certificate can be for {host}"))?;
    let tls = ClientTls::new(ClientOptions {
        authorities: None,
        verify: true,
        certificate: None,
        min_version: TlsVersion::Tls12,
        protocols: Vec::new(),
    })?;
    Ok((tls, name))
}

impl Endpoint {
    pub(super) async fn connect(&self) -> io::Result<Stream> {
        match self {
            Endpoint::Store(path) => Stream::connect_unix(path).await,
            Endpoint::Redis(redis) => redis.connect().await,
        }
    }

    /// Returns the commands that begin a session: RESP3 has typed values, and messages between
    /// replies.
    pub(super) fn greeting(&self) -> Request {
        let mut request = Request::default();
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        let Endpoint::Redis(redis) = self else {
            request.command(&hello);
            return request;
        };
        let url = &redis.url;
        if let Some(password) = &url.password {
            let user = url.user.as_deref().unwrap_or("default");
            hello.extend([&b"AUTH"[..], user.as_bytes(), password.as_bytes()]);
        }
        request.command(&hello);
        if url.database > 0 {
            request.command(&[b"SELECT", url.database.to_string().as_bytes()]);
        }
        request
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Store(_) => f.write_str("the shared store"),
            Endpoint::Redis(redis) => write!(f, "{}", redis.url),
        }
    }
}
