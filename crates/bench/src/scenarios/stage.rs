//! What stands around the servers of a case: backend, files, request and right answer.

use super::Serve;
use super::probe::{probe, request_with};
use crate::floor::{self, Behaviour};
use crate::load::{Address, Expect, Target, Traffic};
use crate::peers::{
    Backend, DOCUMENT_PATH, Finder, HELLO_BODY, HELLO_PATH, KEY, KEY_FIELD, Place, ROUTED_PATH,
    Role,
};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
/// The body of the mock backend.
const DOCUMENT_BYTES: usize = 2048;

/// Ready for servers to be started in this role.
pub(crate) struct Stage {
    pub role: Role,
    path: String,
    /// Whole lines.
    fields: String,
    body: Arc<[u8]>,
    /// Ends when the stage does.
    backend: Option<Backend>,
}

impl Stage {
    pub(crate) fn set(serve: Serve, finder: &Finder, place: &Place<'_>) -> Result<Self, String> {
        let behaviour = |delay, keep| Behaviour { body_bytes: DOCUMENT_BYTES, delay, keep };
        let behaviour = match serve {
            Serve::Gateway { delay, keep } => Some(behaviour(delay, keep)),
            Serve::Guarded => Some(behaviour(Duration::ZERO, true)),
            Serve::Hello | Serve::Routes { .. } | Serve::File { .. } => None,
        };
        let backend = behaviour.map(|it| Backend::start(finder, it, place)).transpose()?;
        let (path, body) = match serve {
            Serve::Hello => (HELLO_PATH.to_owned(), HELLO_BODY.into()),
            Serve::Routes { .. } => (ROUTED_PATH.to_owned(), HELLO_BODY.into()),
            Serve::Gateway { .. } | Serve::Guarded => {
                (DOCUMENT_PATH.to_owned(), floor::body(DOCUMENT_BYTES))
            }
            Serve::File { name, bytes } => (format!("/{name}"), floor::body(bytes)),
        };
        let root = place.folder.join("files");
        if let Serve::File { name, .. } = serve {
            fs::create_dir_all(&root)
                .and_then(|()| fs::write(root.join(name), &body))
                .map_err(|why| format!("{}: {why}", root.display()))?;
        }
        let fields = match serve {
            Serve::Guarded => format!("{KEY_FIELD}: {KEY}\r\n"),
            _ => String::new(),
        };
        // Where there is no backend nobody asks for its address.
        let address = backend.as_ref().map_or(NOWHERE, |backend| backend.address);
        Ok(Self { role: serve.role(address, root), path, fields, body: body.into(), backend })
    }

    /// What the load asks of a server.
    pub(crate) fn target(&self, address: SocketAddr) -> Target {
        let expect = Expect {
            status: 200,
            length: Some(self.body.len() as u64),
            body: Some(Arc::clone(&self.body)),
            headers: Vec::new(),
        };
        let traffic = Traffic::Http { request: self.request(address), expect, keep_alive: true };
        Target { address: Address::Tcp(address), traffic }
    }

    pub(crate) fn request(&self, address: SocketAddr) -> Vec<u8> {
        request_with(address, &self.path, &self.fields)
    }

    /// Whether the server answers rightly when there is no load; the error is half a sentence.
    pub(crate) fn check(&self, address: SocketAddr, deadline: Instant) -> Result<(), String> {
        let answer = probe(address, &self.request(address), deadline)?;
        match answer.status {
            200 if *answer.body == *self.body => Ok(()),
            200 => Err(format!("answers {} bytes that are not right", answer.body.len())),
            status => Err(format!("answers {status}")),
        }
    }

    /// Processes that are part of the load.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.backend.iter().map(Backend::id).collect()
    }
}
