//! The settings of one `cache:` entry in the form that requests need.

use std::time::Duration;

use plugin::HeaderName;
use settings::Cidr;

use crate::CodingSettings;
use crate::rules::Policy;

/// The name of the filter in configurations.
pub(crate) const NAME: &str = "cache";

/// The settings of one entry in the form that requests need.
#[derive(Debug)]
pub struct FilterConfig {
    pub policy: Policy,
    pub fetch: FetchConfig,
    pub codings: CodingSettings,
    /// The longest body that is stored.
    pub body_bytes_max: u64,
    /// Seconds for which the cache remembers that a response could not be stored.
    pub hit_for_miss_s: u32,
    /// Clients that may use PURGE; if empty, the method does not exist.
    pub purge: Vec<Cidr>,
    /// Whether X-Status is sent.
    pub x_status: bool,
}

/// The settings of fetches.
#[derive(Debug)]
pub struct FetchConfig {
    /// The time a request waits for the response head of another request's fetch.
    pub wait: Duration,
    /// The time, and the bytes, for which a fetch continues without a client.
    pub outlive: Duration,
    pub outlive_bytes: u64,
    /// Request fields that are not forwarded (`fetch.drop_headers`), except those in the key.
    pub drop: Box<[HeaderName]>,
    /// Fields about request content, which a cached GET does not have, except those in the key.
    pub drop_content: Box<[HeaderName]>,
    /// The value of Accept-Encoding; `identity` if `None`.
    pub accept_encoding: Option<Box<str>>,
}
