//! `admin`: the API that looks at and steers the running server.

use settings::{Address, FilePath, Secret, Setting, Spanned};
use tls_settings::ListenerTlsSettings;

/// The API that inspects and controls the running server. On its Unix socket, which always
/// exists, file permissions decide; over TCP it requires a token.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct AdminSettings {
    /// The TCP address of the API; unless set, it is on the Unix socket only.
    #[setting(example = "127.0.0.1:9180")]
    pub bind: Option<Spanned<Address>>,
    /// TLS of the address: https instead of http.
    pub tls: Option<Spanned<ListenerTlsSettings>>,
    /// The bearer token that may do everything. Without any token, only `/healthz`, `/readyz` and
    /// `/metrics` are answered over TCP.
    pub token: Option<Secret>,
    /// Further bearer tokens, each with a role and a name, which the log records with each change.
    /// At most 64.
    #[setting(default = [], example = [{ "name": "grafana", "role": "read", "token": "${READ}" }])]
    pub tokens: Vec<Spanned<AdminTokenSettings>>,
    /// Whether the console, a page for browsers, is served at `/console/` of the TCP address. Its
    /// users log in with a token.
    #[setting(default = false)]
    pub console: Spanned<bool>,
    /// Which clients may read `/metrics` over TCP.
    #[setting(default = "open")]
    pub metrics: MetricsAccess,
    /// Names by which clients may reach the TCP address besides IP addresses and names without a
    /// dot: a request with any other `Host` gets 421, which prevents DNS rebinding.
    #[setting(default = [], example = ["metrics.internal"])]
    pub hosts: Vec<String>,
    /// Whether `GET /v1/config?secrets` shows secrets over TCP too, with a token of the role `all`.
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

/// A bearer token of the admin API with a role.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct AdminTokenSettings {
    /// The name that the log records with each change; unless set, the role.
    #[setting(example = "grafana")]
    pub name: Option<Spanned<String>>,
    /// What requests with the token may do.
    pub role: AdminRole,
    /// The token: a random text, `"${NAME}"` or `{ file: path }`.
    pub token: Secret,
}

/// What requests with a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub enum AdminRole {
    /// Reads everything except secrets.
    Read,
    /// Purges caches and reads what they hold, and nothing else.
    Purge,
    /// `read` and `purge`, and changes servers, consumers, quotas, applications and the log level;
    /// reloads the configuration.
    Write,
    /// Everything, which includes another configuration and the end of the process.
    All,
}

impl AdminRole {
    /// The word of the configuration.
    pub const fn slug(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Purge => "purge",
            Self::Write => "write",
            Self::All => "all",
        }
    }
}

/// Which clients may read the metrics.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum MetricsAccess {
    /// Every client that reaches the address.
    Open,
    /// Clients with a token that may read.
    Token,
}
