//! `admin`: the API that looks at and steers the running server.

use settings::{Address, FilePath, Secret, Setting, Spanned};
use tls_settings::ListenerTlsSettings;

/// The API that inspects and controls the running server. On its Unix socket, which always
/// exists, file permissions decide; over TCP it requires the token.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct AdminSettings {
    /// The TCP address of the API; unless set, it is on the Unix socket only.
    #[setting(example = "127.0.0.1:9180")]
    pub bind: Option<Spanned<Address>>,
    /// TLS of the address: https instead of http.
    pub tls: Option<Spanned<ListenerTlsSettings>>,
    /// The bearer token. Without one, only `/healthz`, `/readyz` and `/metrics` are answered
    /// over TCP.
    pub token: Option<Secret>,
    /// Which clients may read `/metrics` over TCP.
    #[setting(default = "open")]
    pub metrics: MetricsAccess,
    /// Names by which clients may reach the TCP address besides IP addresses and names without a
    /// dot: a request with any other `Host` gets 421, which prevents DNS rebinding.
    #[setting(default = [], example = ["metrics.internal"])]
    pub hosts: Vec<String>,
    /// Whether `GET /v1/config?secrets` shows secrets over TCP too, with a valid token.
    /// Without it they are shown on the Unix socket only.
    #[setting(default = false)]
    pub config_secrets: bool,
    /// Path of the Unix socket; a server that cannot create it does not start. Unless set, it is in
    /// the run-time directory of the user; without such a directory, the server logs a warning and
    /// has no socket.
    #[setting(example = "/run/tidegate/admin.sock")]
    pub socket: Option<FilePath>,
    /// The file that stores changes of consumers by `PUT` and `DELETE /v1/consumers/{name}`, so
    /// that they outlive the process. It contains hashes of passwords and secrets of signature
    /// keys, and only this user can read it. Read at start; a damaged file is an error. Unless set,
    /// changes end with the process.
    #[setting(example = "/var/lib/tidegate/consumers.changes")]
    pub consumer_changes: Option<FilePath>,
}

/// Which clients may read the metrics.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum MetricsAccess {
    /// Every client that reaches the address.
    Open,
    /// Clients with the token.
    Token,
}
