//! `owners:` of the filter: the servers of a fleet that own its URLs.

use settings::{Duration, Node, Reader, Secret, Setting, Spanned};

use crate::limits::OWNER_SECRET_BYTES_MIN;

/// The servers of a fleet. On a miss, the one that owns the URL is requested first, so that the
/// origin gets one request for all servers. The origin is requested if the owner does not respond
/// in time, fails, or has not applied the latest purges. Each server finds out by itself which of
/// them it is. Requests with `Authorization`, and responses that may not be shared, never come from
/// an owner.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub struct OwnersSettings {
    /// The upstream whose servers are the fleet: the addresses at which they reach each other's
    /// listeners. Health checks, ejection, time-outs, TLS and discovery are those of the upstream;
    /// weights and retries do not count.
    #[setting(example = "fleet")]
    pub upstream: Spanned<String>,
    /// How long the owner is waited for until the head of its response is there. An owner that
    /// exceeds this counts as failed in the `ejection` of the upstream. It should be longer than
    /// the origin usually takes.
    #[setting(default = "500ms", range = "1ms"..="1m", example = "50ms")]
    pub within: Duration,
    /// The secret by which the servers recognise each other, the same on all; at least 16 bytes. It
    /// is never sent.
    #[setting(example = "${CACHE_FLEET_SECRET}")]
    pub secret: Secret,
}

fn check(settings: &OwnersSettings, node: &Node, reader: &mut Reader<'_>) {
    if settings.secret.expose().len() < OWNER_SECRET_BYTES_MIN {
        let at = node.get("secret").unwrap_or(node);
        let why = format!("the secret is shorter than {OWNER_SECRET_BYTES_MIN} bytes");
        reader.error(at.span, why).help("make one: openssl rand -hex 32");
    }
}
