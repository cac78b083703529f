//! The RESP server of a store, on a Unix socket and with a thread of its own.
//!
//! Only the user that runs the server may connect: the mode of the socket enforces it, and the mode
//! of its directory should as well.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use net::{Bind, ListenOptions, ServeOptions, Serving, until_stopping};

use crate::connection;
use crate::database::Database;
use crate::limits::CONNECTIONS;

/// Readable and writable by its owner only.
const MODE: u32 = 0o600;

/// A served database; dropping it closes the socket and every connection.
#[derive(Debug)]
pub struct StoreServer {
    path: PathBuf,
    database: Arc<Database>,
    _serving: Serving,
}

impl StoreServer {
    /// Serves `database` on a Unix socket at `path`; it accepts connections when this returns.
    pub fn start(path: &Path, database: Arc<Database>) -> io::Result<StoreServer> {
        let options = ServeOptions {
            workers: 1,
            cpu_affinity: false,
            listen: ListenOptions { mode: Some(MODE), ..ListenOptions::default() },
            connections: CONNECTIONS,
        };
        let binds = [Bind::Unix(path.to_owned())];
        let served = database.clone();
        let serving = net::serve(&binds, &options, move |stream, _| {
            let database = served.clone();
            async move {
                until_stopping(connection::serve(database, stream)).await;
            }
        })?;
        Ok(StoreServer { path: path.to_owned(), database, _serving: serving })
    }

    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
