//! The decisions of a route where the rules leave a choice.
//!
//! The default is strict: freshness only as the origin says, nothing with Set-Cookie, stale only
//! where the origin allows it.

/// The policy of one route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Lifetime of a response without one of its own and with a heuristically cacheable status; 0:
    /// not stored.
    pub default_ttl_s: u32,
    /// Minimum of an explicit lifetime other than 0.
    pub ttl_min_s: u32,
    /// Maximum lifetime.
    pub ttl_max_s: u32,
    /// Maximum lifetimes by status, the first that matches; 0: not stored.
    pub status_ceilings: Box<[StatusCeiling]>,
    /// Heuristic freshness from Last-Modified (RFC 9111 4.2.2).
    pub heuristic: Option<Heuristic>,
    /// How long every response may be served stale during a revalidation, unless it forbids it (RFC
    /// 5861 3).
    pub while_revalidate_s: u32,
    /// How long every response may be served stale when the origin fails, unless it forbids it (RFC
    /// 5861 4).
    pub if_error_s: u32,
    /// Whether directives of requests are obeyed (RFC 9111 5.2.1: they are advisory).
    pub honour_request: bool,
    pub set_cookie: SetCookie,
    /// Targeted fields in order, in lower case (RFC 9213 2.2).
    pub targeted: Box<[Box<str>]>,
    /// Whether Surrogate-Control is read, after the targeted fields.
    pub surrogate_control: bool,
    /// Whether No-Vary-Search is obeyed.
    pub no_vary_search: bool,
    /// Maximum number of variants of one URL.
    pub variants_max: usize,
    /// Languages that Accept-Language is reduced to where a response varies by it, the preferred
    /// one first, in lower case; if empty, its text is compared.
    pub languages: Box<[Box<str>]>,
}

/// The maximum lifetime of responses with some statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusCeiling {
    pub first: u16,
    pub last: u16,
    pub ttl_max_s: u32,
}

/// Heuristic freshness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heuristic {
    /// The percentage of the time since the last modification.
    pub percent: u32,
    pub ttl_max_s: u32,
}

/// What happens to a response that sets cookies (RFC 9111 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetCookie {
    /// The response is not stored.
    Refuse,
    /// The response is stored without its cookies.
    Strip,
    /// The response is stored with its cookies: all clients get them.
    Store,
}

impl Default for Policy {
    fn default() -> Policy {
        let ceiling = |first, last, ttl_max_s| StatusCeiling { first, last, ttl_max_s };
        Policy {
            default_ttl_s: 0,
            ttl_min_s: 0,
            ttl_max_s: 365 * 86_400,
            status_ceilings: Box::new([ceiling(400, 499, 300), ceiling(500, 599, 10)]),
            heuristic: None,
            while_revalidate_s: 0,
            if_error_s: 0,
            honour_request: true,
            set_cookie: SetCookie::Refuse,
            targeted: Box::new(["tidegate-cache-control".into(), "cdn-cache-control".into()]),
            surrogate_control: false,
            no_vary_search: true,
            variants_max: 32,
            languages: Box::default(),
        }
    }
}

impl Policy {
    /// The maximum lifetime for a status.
    pub fn ttl_max_s(&self, status: u16) -> u32 {
        let ceiling = self.status_ceilings.iter().find(|c| (c.first..=c.last).contains(&status));
        ceiling.map_or(self.ttl_max_s, |c| c.ttl_max_s.min(self.ttl_max_s))
    }
}
