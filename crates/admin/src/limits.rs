//! Every bound of this crate, by name.

use std::time::Duration;

/// Largest configuration that may be put.
pub const CONFIG_BYTES: u64 = 4 * 1024 * 1024;
/// Largest body of any other request.
pub const REQUEST_BYTES: u64 = 256 * 1024;
/// Most fields a request to be explained may have.
pub const EXPLAIN_FIELDS: usize = 128;
/// Refused tokens logged per second; the rest is counted.
pub const REFUSALS_LOGGED_PER_SECOND: u32 = 5;
/// Default and maximum number of cache entries on a page.
pub const ENTRIES: usize = 100;
pub const ENTRIES_MAX: usize = 1000;
/// Default and maximum number of entries in a list of the top ones of a cache.
pub const TOP_ENTRIES: usize = 10;
pub const TOP_ENTRIES_MAX: usize = 100;
/// URLs that the preview of a purge names.
pub const PREVIEW_URLS: usize = 20;
/// Circuit breakers that are listed for an upstream, and routes that are named for one.
pub const BREAKERS: usize = 50;
pub const BREAKER_ROUTES: usize = 10;
/// Lua files that are listed, and routes and programs that are named for one.
pub const LUA_FILES: usize = 200;
pub const LUA_FILE_USERS: usize = 10;
/// Age and number of the marks of a summary.
pub const MARKS_MS: u64 = 5 * 60 * 1000;
pub const SUMMARY_MARKS: usize = 50;
/// Most conditions that a client of the live log may name.
pub const LOG_CONDITIONS: usize = 16;
/// The pause between two looks at the live log, and the most lines of each: some more than the 1000
/// a second that are recorded under load. Few at a time, because a worker may wait for the core on
/// which they are written.
pub const LOG_PAUSE: Duration = Duration::from_millis(20);
pub const LINES_PER_PAUSE: usize = 24;
/// After this time without a request a client of the live log gets an empty line.
pub const LOG_SILENCE: Duration = Duration::from_secs(10);
/// Routes whose rules a client's live log remembers.
pub const LOG_RULES: usize = 1000;
/// Sessions of the console at a time; another login ends the one that was unused for longest.
pub const SESSIONS: usize = 64;
/// A session ends after this time without a request, and after its lifetime in any case.
pub const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
pub const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);
/// Servers out of rotation, and certificates, that a summary names.
pub const SUMMARY_SERVERS: usize = 20;
pub const SUMMARY_CERTIFICATES: usize = 100;
/// Seconds that a purge waits for other servers, unless it says so, and at most.
pub const PURGE_WAIT_S: u64 = 10;
pub const PURGE_WAIT_MAX_S: u64 = 60;
/// Seconds of a profile of Lua code, unless it says so, and at most; and how often a second of CPU
/// time is read.
pub const PROFILE_S: u64 = 10;
pub const PROFILE_S_MAX: u64 = 60;
pub const PROFILE_SAMPLES_PER_SECOND: u32 = 100;
