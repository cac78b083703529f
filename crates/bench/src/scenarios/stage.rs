//! What stands around the servers of a case: backend, files, request and right answer.

use super::probe::{probe, request};
use super::{Case, Serve};
use crate::floor::{self, Behaviour};
use crate::load::{Address, Expect, Target, Traffic};
use crate::peers::{Backend, DOCUMENT_PATH, Finder, HELLO_BODY, HELLO_PATH, Place, Role};
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// The body of the mock backend.
const DOCUMENT_BYTES: usize = 2048;

/// Ready for servers to be started in this role.
pub(crate) struct Stage {
    pub role: Role,
    path: String,
    body: Arc<[u8]>,
    /// Ends when the stage does.
    backend: Option<Backend>,
}

impl Stage {
    pub(crate) fn set(case: &Case, finder: &Finder, place: &Place<'_>) -> Result<Self, String> {
        match case.serve {
            Serve::Hello => Ok(Self {
                role: Role::Hello,
                path: HELLO_PATH.to_owned(),
                body: HELLO_BODY.as_bytes().into(),
                backend: None,
            }),
            Serve::Gateway { delay, keep } => {
                let behaviour = Behaviour { body_bytes: DOCUMENT_BYTES, delay, keep };
                let backend = Backend::start(finder, behaviour, place)?;
                Ok(Self {
                    role: Role::Gateway { backend: backend.address, keep },
                    path: DOCUMENT_PATH.to_owned(),
                    body: floor::body(DOCUMENT_BYTES).into(),
                    backend: Some(backend),
                })
            }
            Serve::File { name, bytes } => {
                let root = place.folder.join("files");
                let body = floor::body(bytes);
                fs::create_dir_all(&root)
                    .and_then(|()| fs::write(root.join(name), &body))
                    .map_err(|why| format!("{}: {why}", root.display()))?;
                let role = Role::Files { root };
                Ok(Self { role, path: format!("/{name}"), body: body.into(), backend: None })
            }
        }
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
        request(address, &self.path)
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
