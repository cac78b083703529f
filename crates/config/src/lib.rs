//! YAML → checked, frozen [`ServerPlan`]: where documents come from, what may be written, every
//! reported at once.
//!
//! Owns the reading of YAML, `${ENV}`, includes, the outermost declarations and their connection.
//! Each room declares its own settings; here they are put together. Promises: a configuration with
//! an error gives no plan, and all errors are given with their places; a plan never changes.
//! Never does: opening sockets, starting anything.
//!
//! ```
//! use config::{Kinds, TextSource, load};
//!
//! let text = "
//! listeners: { web: { bind: \"127.0.0.1:8080\" } }
//! routes:
//!   - match: { path: /ping }
//!     handler: { respond: { body: pong } }
//! ";
//! let source = TextSource::new("a.yaml", text);
//! let Ok(loaded) = load(&source, &|_| None, &Kinds::all()) else { panic!("an error") };
//! assert_eq!(loaded.plan.routes[0].name, "/ping");
//!
//! let typo = TextSource::new("a.yaml", &text.replace("bind", "bnid"));
//! let report = load(&typo, &|_| None, &Kinds::all()).err().unwrap();
//! assert!(report.render().contains("unknown key \"bnid\", did you mean \"bind\"?"));
//! ```

mod assemble;
mod compile;
mod describe;
mod development;
mod expand;
mod inputs;
mod kinds;
pub mod limits;
mod load;
mod notes;
mod parts;
mod records;
mod server_plan;
mod source;
mod yaml;

pub use describe::{reference_markdown, schema};
pub use expand::{Environment, process_environment};
pub use inputs::Inputs;
pub use kinds::{FilterEntry, HandlerEntry, Kinds};
pub use load::{
    Incomplete, Loaded, document_json, load, load_with_unset_variables, masked, read_consumer,
    source_version,
};
pub use notes::notes;
pub use parts::Part;
pub use records::{
    AccessFormatSetting, AccessSettings, AdminRole, AdminSettings, AdminTokenSettings,
    DefaultsSettings, EncodedSlashes, ErrorPageSettings, ErrorSettings, HttpVersion, LevelWord,
    Limits, ListenerLimits, ListenerSettings, ListenerTimeouts, LogFormatWord, LogSettings,
    LogTarget, MetricsAccess, ProxyProtocolSettings, RouteLimits, RouteSettings, RouteTimeouts,
    Settings, StatsdSettings, StreamLimits, StreamProtocol, StreamSettings, StreamTimeouts,
    SyslogFacility, SyslogSettings, SyslogTransport, Timeouts, UnknownHost, Workers,
};
pub use server_plan::{AdminPlan, AdminToken, ListenerPlan, ListenerTls, RoutePlan, ServerPlan};
pub use source::{Document, FileSource, NewConfig, ReplaceError, Replaced, Source, TextSource};
