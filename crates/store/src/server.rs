//! The door through which other processes reach a store: a Unix socket, and a thread of its own.
//!
//! Only the user whose server this is may connect: the socket's mode says so, and the folder it
//! lies in should as well.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use net::{Bind, ListenOptions, ServeOptions, Serving, until_stopping};

use crate::connection;
use crate::limits::CONNECTIONS;
use crate::space::Space;

/// Read and written by its owner alone.
const MODE: u32 = 0o600;

/// A store that is served; dropping it closes the socket and every connection.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    space: Arc<Space>,
    _serving: Serving,
}

impl Store {
    /// Serves `space` on a Unix socket at `path`; it can be reached when this returns.
    pub fn start(path: &Path, space: Arc<Space>) -> io::Result<Store> {
        let options = ServeOptions {
            workers: 1,
            cpu_affinity: false,
            listen: ListenOptions { mode: Some(MODE), ..ListenOptions::default() },
            connections: CONNECTIONS,
        };
        let binds = [Bind::Unix(path.to_owned())];
        let served = space.clone();
        let serving = net::serve(&binds, &options, move |stream, _| {
            let space = served.clone();
            async move {
                until_stopping(connection::serve(space, stream)).await;
            }
        })?;
        Ok(Store { path: path.to_owned(), space, _serving: serving })
    }

    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
