//! Every bound of the client, by name. Those that users set are in [`crate::SharedSettings`].

use std::time::Duration;

use wire::resp::reply::Limits;

/// Servers that the section may name.
pub const ADDRESSES: usize = 64;
/// Nodes of a Cluster to which connections are open.
pub const NODES: usize = 1024;
/// Replies: the largest are those about the slots of a Cluster.
pub const REPLY: Limits = Limits { line: 4096, bytes: 4 << 20, items: 1 << 18, depth: 8 };
/// Bytes of a message in an error.
pub const DETAIL_BYTES: usize = 512;
/// How long the primary that Sentinels named, or the slots of a Cluster, are used before they are
/// asked again although nothing failed.
pub const TOPOLOGY: Duration = Duration::from_secs(30);
