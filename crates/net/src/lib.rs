//! The only room that opens sockets.
//!
//! Owns workers (a thread, a loop, a core), listeners, streams, datagrams, time-outs and names.
//! Promises that a dropped receive loses nothing, that an idle connection holds no buffer, and that
//! nothing here takes a lock another worker may hold while a request runs. Knows no protocol above
//! TCP. The process's allocator is here as well, because its few lines are `unsafe`.

mod allocator;
mod bell;
mod blocking;
mod child;
pub mod clock;
mod counts;
mod datagram;
mod driver;
pub mod files;
mod handed;
mod inherit;
mod listener;
mod memory_file;
mod names;
mod outgoing;
mod platform;
mod process;
mod readiness;
mod receive;
mod serve;
mod stream;
pub mod task;
pub mod timer;
mod unlinked;
pub mod worker;

pub use allocator::{Allocator, give_back};
pub use bell::Bell;
pub use blocking::{Blocking, blocking};
pub use child::{Child, Launch};
pub use counts::SharedCounts;
pub use datagram::Datagram;
pub use driver::{Driver, Event, Interest, Key, Source};
pub use handed::{handed_listener, handed_stream};
pub use inherit::{InheritError, Inherited, inherited};
pub use listener::{
    Accepted, Bind, BindError, BoundSocket, ListenOptions, Listener, Listening, is_exhausted,
};
pub use memory_file::memory_file;
pub use names::{Answer, NameError, Names, NoAddress};
pub use outgoing::{FileRange, Outgoing};
pub use process::{
    address_space_bytes, address_space_limit, descriptor_limit, open_descriptors, page_bytes,
    raise_descriptor_limit, user_id,
};
pub use receive::{Lent, detach};
pub use serve::{ServeOptions, Serving, serve, serve_on, until_stopping};
pub use stream::{Parked, Peer, Stream};
pub use timer::{Nudge, Timer};
pub use unlinked::unlinked_file;
