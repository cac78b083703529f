//! The settings of one `cache:` entry in the form that requests need.

use std::time::Duration;

use exchange::HeaderName;
use settings::Cidr;

use crate::CodingSettings;
use crate::rules::Policy;

/// The name of the filter in configurations.
pub(crate) const NAME: &str = "cache";

/// What one entry says, ready to be worked with.
#[derive(Debug)]
pub struct FilterConfig {
    pub policy: Policy,
    pub fetch: FetchConfig,
    pub codings: CodingSettings,
    /// Largest body that is kept.
    pub body_bytes_max: u64,
    /// How long it is remembered that an answer could not be kept.
    pub hit_for_miss_s: u32,
    /// Clients that may use PURGE; with nobody there is no such method.
    pub purge: Vec<Cidr>,
    /// Whether X-Status is sent.
    pub x_status: bool,
}

/// How the origin is asked.
#[derive(Debug)]
pub struct FetchConfig {
    /// How long a request waits for the head of an answer that another one fetches.
    pub wait: Duration,
    /// How long a fetch goes on that nobody waits for any more, and how much it takes.
    pub outlive: Duration,
    pub outlive_bytes: u64,
    /// Request fields that are not sent on.
    pub drop: Box<[HeaderName]>,
    /// The value of Accept-Encoding; without one the field is not sent.
    pub accept_encoding: Option<Box<str>>,
}
