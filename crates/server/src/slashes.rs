//! The meaning of `%2F` in a path on a listener: `encoded_slashes`.
//!
//! Applied before a route is looked up, so that routes, filters, files and upstreams see the same
//! path.

use config::{EncodedSlashes, ServerPlan};
use message::{Fault, FaultKind, Request, Target};
use telemetry::event_limited;
use telemetry::log::Level;

/// Maximum of log lines in a second; the next line has the number of those that were suppressed.
const LINES_PER_SECOND: u32 = 10;

/// Applies the rule of the request's listener. A subrequest of a script belongs to the listener of
/// its client.
#[cold]
pub(crate) fn apply_rule_of(plan: &ServerPlan, request: &mut Request) -> Result<(), Fault> {
    let listener = plan.listener(&request.facts.listener);
    let rule = listener.map_or(EncodedSlashes::Refuse, |listener| listener.encoded_slashes);
    apply(rule, &mut request.target).inspect_err(|fault| {
        event_limited!(
            LINES_PER_SECOND,
            Level::Info,
            "request rejected: encoded slash in its path",
            client = request.client_ip,
            listener = request.facts.listener,
            path = String::from_utf8_lossy(request.target.received_path()),
            status = fault.status,
            fault = fault.slug(),
            why = fault.detail,
            trace_id = request.trace_id()
        );
    })
}

/// Applies the rule to a request target.
pub(crate) fn apply(rule: EncodedSlashes, target: &mut Target) -> Result<(), Fault> {
    let refused = |kind, why: &'static str| Err(Fault::new(kind, why));
    match rule {
        EncodedSlashes::Keep => {
            target.keep_encoded_slashes();
            Ok(())
        }
        _ if !target.has_encoded_slash() => Ok(()),
        EncodedSlashes::Decode => match target.decode_slashes() {
            Ok(()) => Ok(()),
            Err(fault) => refused(FaultKind::InvalidTarget, fault.as_str()),
        },
        EncodedSlashes::Refuse => refused(
            FaultKind::EncodedSlash,
            "the listener refuses %2F; to accept it, set encoded_slashes: keep or decode",
        ),
    }
}
