//! Sockets, workers and time: the only crate that opens sockets.
//!
//! Owns workers (a thread with an event loop, optionally pinned to a core), listeners, streams,
//! datagrams, TLS, time-outs and name resolution. Guarantees: a dropped receive loses no bytes, an
//! idle connection holds no buffer, and no lock is taken that another worker may hold while a
//! request runs. Knows no protocol above TCP and TLS, but the PROXY header that comes before TLS.
//! The process's allocator lives here too, because it needs `unsafe`.

#[cfg(debug_assertions)]
mod activity;
mod allocator;
mod anonymous_file;
mod blocking;
mod child;
pub mod clock;
mod counts;
mod datagram;
mod datagram_sender;
mod driver;
mod error_log;
mod event_fd;
mod file_words;
pub mod files;
mod identity;
mod inherit;
mod inherited_fd;
mod listener;
#[cfg(debug_assertions)]
pub mod manual_time;
mod memory_file;
mod memory_network;
mod outgoing;
mod pid_file;
mod platform;
mod process;
mod proxy_protocol;
mod readiness;
mod receive;
mod received_file;
mod resolver;
mod serve;
mod stream;
mod syslog_sender;
pub mod task;
pub mod timer;
pub mod tls;
pub mod worker;

/// `tests/models` has loom's types under these names.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
    pub(crate) use std::sync::{Mutex, MutexGuard};
}

pub use allocator::{Allocator, release_free_memory};
pub use anonymous_file::anonymous_file;
pub use blocking::{Blocking, blocking};
pub use child::{Child, ChildCommand};
pub use counts::SharedCounts;
pub use datagram::Datagram;
pub use datagram_sender::DatagramSender;
pub use driver::{Driver, Event, Interest, Key, Source};
pub use error_log::{ErrorLog, reopen_error_log};
pub use event_fd::EventFd;
pub use file_words::FileWords;
pub use identity::Identity;
pub use inherit::{InheritError, Inherited, inherited};
pub use inherited_fd::{inherited_listener, inherited_stream};
pub use listener::{
    Accepted, Bind, BindError, BoundSocket, ListenOptions, Listener, Listening, is_exhausted,
};
pub use memory_file::memory_file;
pub use memory_network::MemoryNetwork;
pub use outgoing::{FileRange, Outgoing};
pub use pid_file::PidFile;
pub use process::{
    address_space_bytes, address_space_limit, descriptor_limit, open_descriptors, page_bytes,
    raise_descriptor_limit, release_startup_memory, set_title, set_umask, user_id,
};
pub use proxy_protocol::ProxyHeaderError;
pub use receive::{RecvChunk, detach};
pub use resolver::{
    NameError, NoAddress, ResolvedAddresses, ResolvedServices, Resolver, ResolverSettings,
    ServiceRecord,
};
pub use serve::{ServeOptions, Serving, serve, serve_on, until_stopping};
pub use stream::{Parked, Peer, Stream};
pub use syslog_sender::{SyslogAddress, SyslogSender};
pub use timer::{Timer, WakeHandle};
