//! What may be written in a configuration: one file per part, declared once with prose, default and
//! range.
//!
//! Never does: connecting the parts (that is [`compile`](crate::compile)).

mod admin;
mod bounds;
mod errors;
mod listener;
mod log;
mod proxy_protocol;
mod route;
mod stream;
mod top;
mod workers;

pub use admin::{AdminRole, AdminSettings, AdminTokenSettings, MetricsAccess};
pub use bounds::{Limits, ListenerLimits, ListenerTimeouts, RouteLimits, RouteTimeouts, Timeouts};
pub use errors::{ErrorPageSettings, ErrorSettings};
pub use listener::{EncodedSlashes, HttpVersion, ListenerSettings, UnknownHost};
pub use log::{
    AccessFormatSetting, AccessSettings, LevelWord, LogFormatWord, LogSettings, LogTarget,
    StatsdSettings, SyslogFacility, SyslogSettings, SyslogTransport,
};
pub use proxy_protocol::ProxyProtocolSettings;
pub use route::{DefaultsSettings, RouteSettings};
pub use stream::{StreamLimits, StreamProtocol, StreamSettings, StreamTimeouts};
pub use top::Settings;
pub use workers::Workers;
