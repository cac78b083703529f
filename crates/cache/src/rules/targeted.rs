//! Targeted cache directives (RFC 9213 2.2).

use message::Headers;
use sfv::{BareItem, Dictionary, ListEntry, Parser};
use wire::Known;
use wire::cache_control::{SECONDS_MAX, directives, seconds};

use super::Policy;
use super::directives::Directives;

/// The directives that apply to this cache.
pub(crate) struct ApplicableDirectives {
    pub(crate) directives: Directives,
    /// Whether Cache-Control and Expires are ignored.
    pub(crate) targeted: bool,
}

/// The first targeted field that is valid and not empty; then Surrogate-Control, if the policy
/// reads it; then Cache-Control.
pub(crate) fn choose(headers: &Headers, policy: &Policy) -> ApplicableDirectives {
    let targeted = policy.targeted.iter().find_map(|name| strict(headers, name));
    let targeted =
        targeted.or_else(|| policy.surrogate_control.then(|| surrogate(headers)).flatten());
    match targeted {
        Some(directives) => ApplicableDirectives { directives, targeted: true },
        None => ApplicableDirectives { directives: Directives::of(headers), targeted: false },
    }
}

/// A targeted field as a dictionary; `None` if it is missing, empty or invalid.
fn strict(headers: &Headers, name: &str) -> Option<Directives> {
    let joined = headers.joined(name).unwrap_or_default();
    let dictionary = Parser::new(&joined).parse::<Dictionary>().ok()?;
    (!dictionary.is_empty()).then(|| of_dictionary(&dictionary))
}

fn of_dictionary(dictionary: &Dictionary) -> Directives {
    let mut found = Directives::default();
    for (name, member) in dictionary {
        let ListEntry::Item(item) = member else { continue };
        let name = name.as_str();
        match &item.bare_item {
            BareItem::Boolean(true) => set_flag(&mut found, name),
            BareItem::Integer(number) => set_seconds(&mut found, name, (*number).into()),
            BareItem::String(text) => set_text(&mut found, name, text.as_str()),
            // RFC 9213 2.1: a value of another type than the directive's is not used.
            _ => {}
        }
    }
    found
}

fn set_flag(found: &mut Directives, name: &str) {
    match name {
        "no-store" => found.no_store = true,
        "no-cache" => found.no_cache = true,
        "private" => found.private = true,
        "public" => found.public = true,
        "must-revalidate" => found.must_revalidate = true,
        "proxy-revalidate" => found.proxy_revalidate = true,
        "must-understand" => found.must_understand = true,
        "no-transform" => found.no_transform = true,
        "immutable" => found.immutable = true,
        _ => {}
    }
}

fn set_seconds(found: &mut Directives, name: &str, number: i64) {
    // A negative time counts as 0.
    let seconds = u32::try_from(number.max(0)).unwrap_or(SECONDS_MAX).min(SECONDS_MAX);
    match name {
        "max-age" => found.max_age_s = Some(seconds),
        "s-maxage" => found.s_maxage_s = Some(seconds),
        "stale-while-revalidate" => found.while_revalidate_s = Some(seconds),
        "stale-if-error" => found.if_error_s = Some(seconds),
        _ => {}
    }
}

fn set_text(found: &mut Directives, name: &str, text: &str) {
    match name {
        "no-cache" => found.no_cache |= !found.names_fields(Some(text.as_bytes())),
        "private" => found.private |= !found.names_fields(Some(text.as_bytes())),
        _ => {}
    }
}

/// Surrogate-Control has the syntax of Cache-Control; members for a surrogate by name (`;name`) are
/// not for this cache, and `content` is not about caching.
fn surrogate(headers: &Headers) -> Option<Directives> {
    let mut found = Directives::default();
    let mut any = false;
    for value in headers.get_all(Known::SurrogateControl) {
        for directive in directives(value) {
            if directive.is("content") {
                continue;
            }
            any = true;
            found.add(&directive);
            if directive.is("max-age") {
                add_surplus(&mut found, directive.argument.unwrap_or_default());
            }
        }
    }
    any.then_some(found)
}

/// `max-age=600+30`: may be served stale for 30 seconds during a revalidation (Edge Architecture).
fn add_surplus(found: &mut Directives, argument: &[u8]) {
    let Some(at) = argument.iter().position(|&byte| byte == b'+') else { return };
    if let (Some(fresh), Some(more)) = (seconds(&argument[..at]), seconds(&argument[at + 1..])) {
        found.max_age_s = Some(fresh);
        found.while_revalidate_s = Some(more);
    }
}
