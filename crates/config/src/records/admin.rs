//! `admin`: the API that looks at and steers the running server.

use settings::{Address, FilePath, Secret, Spanned};

settings::record! {
    /// The API that looks at and steers the running server. On its Unix socket, which always
    /// exists, it is open to whoever may open the socket; over TCP it wants the token.
    pub struct AdminSettings {
        /// The address to answer on; only the Unix socket without it.
        pub bind: Option<Spanned<Address>> = null { example "127.0.0.1:9180" },
        /// The bearer token. Without one, only `/healthz`, `/readyz` and `/metrics` are answered
        /// over TCP.
        pub token: Option<Secret> = null,
        /// Who may read `/metrics` over TCP.
        pub metrics: MetricsAccess = "open",
        /// Names by which clients may reach the TCP address besides IP addresses and names without
        /// a dot: what a `Host` field says that is not listed gets 421, which stops DNS rebinding.
        pub hosts: Vec<String> = [] { example ["metrics.internal"] },
        /// Whether `GET /v1/config?secrets` shows secrets over TCP too, with a valid token.
        /// Without it they are shown on the Unix socket only.
        pub config_secrets: bool = false,
        /// Path of the Unix socket: a server that cannot have it does not start. Without a path it
        /// is one in the run-time folder of the user, and where there is none only a warning.
        pub socket: Option<FilePath> = null { example "/run/tidegate/admin.sock" },
    }
}

settings::choice! {
    /// Who may read the metrics.
    pub enum MetricsAccess {
        /// Everybody who reaches the address.
        Open = "open",
        /// Whoever has the token.
        Token = "token",
    }
}
