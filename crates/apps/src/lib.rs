//! Applications in other languages: the handler `app`, and both ends of the connection to a process
//! that runs one.
//!
//! Independent of the language: what it hands over is an exchange (`offload`) or a
//! WebSocket session. The application runs in this process (behind a
//! [`offload::RequestQueue`]) or in a process of its own, reached by frames over a Unix
//! socket.

mod app_plan;
mod backend;
mod buffered_body;
pub mod frames;
mod handler;
mod in_process;
mod limits;
mod live_workers;
mod mux;
mod remote;
mod settings;
pub mod websocket;
mod wsgi_threads;

pub use app_plan::{AppPlan, HANDLER};
pub use backend::{AppBackend, OfferError, QueueBackend};
pub use handler::AppHandler;
pub use in_process::InProcess;
pub use live_workers::{LiveWorker, LiveWorkers};
pub use remote::Remote;
pub use settings::{
    AppLimits, AppSettings, AppTimeouts, EventLoop, Interface, Lifespan, PROFILE_TOKEN_MIN,
};
pub use wsgi_threads::WsgiThreads;
