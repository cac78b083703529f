//! The request of a health check, in any version of HTTP.

use crate::status_range::StatusRange;

/// The request of a check.
pub(super) enum Probe {
    /// A GET, and the statuses of a healthy server.
    Get { path: String, expected: StatusRange },
    /// The health of a gRPC service; without a name, of the server.
    Grpc { service: String },
}

/// The reason for the log when a connection failed.
pub(super) fn broken(error: std::io::Error) -> String {
    format!("the connection failed: {error}")
}
