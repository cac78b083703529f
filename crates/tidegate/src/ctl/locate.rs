//! Finds the admin API: the address of the command line, or the only server of this user.

use std::path::{Path, PathBuf};
use std::time::Duration;

use net::{Stream, timer, worker};
use settings::{Address, Host};

use crate::failure::Failure;
use crate::output::columns;

/// The time-out of connecting.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The address of an admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminAddress {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl std::fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AdminAddress::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            AdminAddress::Tcp { host, port } => write!(f, "{host}:{port}"),
            AdminAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl std::str::FromStr for AdminAddress {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        if typed.starts_with("https://") {
            return Err("TLS to the admin API is not supported yet".to_owned());
        }
        let address = typed.strip_prefix("http://").unwrap_or(typed).trim_end_matches('/');
        let address: Address = address.parse().map_err(|why| format!("\"{typed}\" {why}"))?;
        Ok(match address {
            Address::Unix(path) => AdminAddress::Unix(path),
            Address::Tcp { host, port } => {
                let host = match host {
                    Host::Any => "127.0.0.1".to_owned(),
                    Host::Ip(ip) => ip.to_string(),
                    Host::Name(name) => name,
                };
                AdminAddress::Tcp { host, port }
            }
        })
    }
}

/// Returns the named server, or the only one that runs here.
pub(crate) fn find(named: Option<AdminAddress>) -> Result<AdminAddress, Failure> {
    match named {
        Some(address) => Ok(address),
        None => only_one(&server::admin_socket_dir()),
    }
}

fn only_one(dir: &Path) -> Result<AdminAddress, Failure> {
    let mut living = live_sockets(dir);
    match living.len() {
        0 => Err(Failure::Failed(format!(
            "no server runs here: there is no living socket in {}\n\
             Name one with --admin ADDRESS or TIDEGATE_ADMIN.",
            dir.display()
        ))),
        1 => Ok(AdminAddress::Unix(living.remove(0))),
        several => {
            let row = |path: &PathBuf| {
                let process = path.file_stem().unwrap_or_default().to_string_lossy();
                [format!("process {process}"), format!("--admin unix:{}", path.display())]
            };
            let rows: Vec<_> = living.iter().map(row).collect();
            let list = columns(&rows, 2);
            Err(Failure::Failed(format!("{several} servers run here; name one of them:\n\n{list}")))
        }
    }
}

/// Returns the sockets in a directory that accept connections, sorted. Sockets of dead servers are
/// skipped.
fn live_sockets(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut sockets: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "sock")).collect();
    sockets.sort();
    worker::block_on_local(async {
        let mut living = Vec::new();
        for path in sockets {
            let connected = timer::within(CONNECT_TIMEOUT, Stream::connect_unix(&path)).await;
            if matches!(connected, Some(Ok(_))) {
                living.push(path);
            }
        }
        living
    })
}

#[cfg(test)]
mod tests {
    use net::{Bind, ListenOptions, Listening};

    use super::{AdminAddress, only_one};
    use crate::failure::Failure;

    #[test]
    fn addresses_are_parsed() {
        let reads = |typed: &str| typed.parse::<AdminAddress>().map(|address| address.to_string());
        assert_eq!(reads("http://127.0.0.1:9180/").as_deref(), Ok("127.0.0.1:9180"));
        assert_eq!(reads("[::1]:9180").as_deref(), Ok("[::1]:9180"));
        assert_eq!(reads(":9180").as_deref(), Ok("127.0.0.1:9180"));
        assert_eq!(reads("unix:/run/a.sock").as_deref(), Ok("unix:/run/a.sock"));
        assert!(reads("https://a:1").unwrap_err().contains("not supported yet"));
        assert!(reads("localhost").unwrap_err().contains("no port"));
    }

    #[test]
    fn the_only_living_server_is_meant() {
        let dir = tempfile::tempdir().unwrap();
        let listen = |name: &str| {
            let bind = Bind::Unix(dir.path().join(name));
            Listening::bind(&bind, 1, &ListenOptions::default()).unwrap()
        };
        let sentence = || match only_one(dir.path()) {
            Err(Failure::Failed(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(sentence().starts_with("no server runs here"));
        std::fs::write(dir.path().join("1.sock"), "left over").unwrap();
        let first = listen("20.sock");
        assert_eq!(only_one(dir.path()), Ok(AdminAddress::Unix(dir.path().join("20.sock"))));
        let second = listen("30.sock");
        let both = sentence();
        assert!(both.starts_with("2 servers run here"), "{both}");
        assert!(both.contains("process 20") && both.contains("30.sock"), "{both}");
        drop((first, second));
    }
}
