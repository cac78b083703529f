//! Applications in other languages, as the server sees them: the handler `app`, and both ends of
//! the way to a process that runs one.
//!
//! Knows no language: what it hands over is an exchange (seam 8) or a session of WebSocket. The
//! application may run in this process (a [`exchange::offload::RequestQueue`]) or in a process of its own,
//! reached by frames over a Unix socket.

mod conduit;
pub mod frames;
mod handler;
mod here;
mod limits;
mod place;
mod plan;
mod remote;
mod settings;
mod slots;
pub mod websocket;
mod whole;

pub use handler::AppHandler;
pub use here::Here;
pub use place::{DeskPlace, Place, Refused};
pub use plan::{AppPlan, HANDLER};
pub use remote::Remote;
pub use settings::{AppLimits, AppSettings, AppTimeouts, EventLoop, Interface, Lifespan};
pub use slots::{Slot, Slots};
