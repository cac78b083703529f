//! A second implementation of storing and reuse: slow, obvious, and written from the text of the
//! RFCs alone. It shares no parser and no arithmetic with the rules; the test next to it generates
//! responses and requests and compares both.

mod made_up;

use super::tests::{NOW, date};
use made_up::RandomExchange;

/// The oracle's decision about a response.
#[derive(Debug, PartialEq, Eq)]
struct Stored {
    lifetime_s: u64,
    initial_age_s: u64,
    while_revalidate_s: u64,
    if_error_s: u64,
    no_cache: bool,
    never_stale: bool,
    immutable: bool,
}

/// RFC 9111 1.2.2: what overflows is this.
const GREATEST_S: u64 = 1 << 31;

type Fields = [(String, String)];

fn values<'a>(fields: &'a Fields, name: &str) -> Vec<&'a str> {
    let same = fields.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
    same.map(|(_, value)| value.as_str()).collect()
}

/// Directives with their arguments; commas in quotes do not separate.
fn directives(fields: &Fields) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    for line in values(fields, "Cache-Control") {
        let (mut name, mut argument, mut quoted) = (String::new(), None::<String>, false);
        for letter in line.chars().chain([',']) {
            match letter {
                '"' => quoted = !quoted,
                ',' if !quoted => {
                    let name = std::mem::take(&mut name).trim().to_lowercase();
                    found.push((name, argument.take()));
                }
                '=' if argument.is_none() => argument = Some(String::new()),
                letter => argument.as_mut().unwrap_or(&mut name).push(letter),
            }
        }
    }
    found.retain(|(name, _)| !name.is_empty());
    found
}

fn first<'a>(all: &'a [(String, Option<String>)], name: &str) -> Option<&'a Option<String>> {
    all.iter().find(|(found, _)| found == name).map(|(_, argument)| argument)
}

fn number(text: &Option<String>) -> Option<u64> {
    let text = text.as_ref()?.trim_end();
    let digits = !text.is_empty() && text.chars().all(|letter| letter.is_ascii_digit());
    digits.then(|| text.parse::<u128>().unwrap().min(GREATEST_S.into()) as u64)
}

/// A date among those that are made up, by trying them all.
fn seconds(text: &str) -> Option<u64> {
    (-200..=200)
        .find(|offset_s| date(*offset_s).eq_ignore_ascii_case(text))
        .map(|offset_s| NOW.checked_add_signed(offset_s).unwrap())
}

const CACHEABLE_BY_DEFAULT: [u16; 12] =
    [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 451, 501];

/// True, with the facts to store, if the response may be stored (RFC 9111 3).
fn store(world: &RandomExchange) -> Option<Stored> {
    let declared = directives(&world.response);
    let has = |name: &str| first(&declared, name).is_some();
    let bare = |name: &str| declared.iter().any(|(found, text)| found == name && text.is_none());
    let requested = directives(&world.request);
    if world.policy.honour_request && first(&requested, "no-store").is_some() {
        return None;
    }
    if [206, 304, 416, 429].contains(&world.status) || has("no-store") || bare("private") {
        return None;
    }
    let authorized = !values(&world.request, "Authorization").is_empty();
    if authorized && !bare("public") && !has("must-revalidate") && !has("s-maxage") {
        return None;
    }
    if !values(&world.response, "Set-Cookie").is_empty() {
        let named = declared.iter().any(|(name, text)| {
            let text = text.as_deref().unwrap_or("");
            (name == "private" || name == "no-cache") && text.eq_ignore_ascii_case("set-cookie")
        });
        if !named {
            return None;
        }
    }
    if values(&world.response, "Vary").iter().any(|value| value.contains('*')) {
        return None;
    }
    let allowed = CACHEABLE_BY_DEFAULT.contains(&world.status) || bare("public");
    let lifetime_s = match explicit_lifetime(world) {
        Some(seconds) => Some(seconds),
        None if allowed => guessed_lifetime(world),
        None => None,
    };
    let ceiling_s = match world.status {
        400..=499 => 300,
        500..=599 => 10,
        _ => 31_536_000,
    };
    if lifetime_s.is_none() && !(bare("no-cache") && allowed) {
        return None;
    }
    let lifetime_s = lifetime_s.unwrap_or(0).min(ceiling_s);
    let never_stale = has("must-revalidate") || has("proxy-revalidate") || has("s-maxage");
    let window = |name: &str, least: u32| {
        let declared_s = first(&declared, name).and_then(number).unwrap_or(0);
        if never_stale || bare("no-cache") { 0 } else { declared_s.max(u64::from(least)) }
    };
    let stored = Stored {
        lifetime_s,
        initial_age_s: initial_age(world),
        while_revalidate_s: window("stale-while-revalidate", world.policy.while_revalidate_s),
        if_error_s: window("stale-if-error", world.policy.if_error_s),
        no_cache: bare("no-cache"),
        never_stale,
        immutable: bare("immutable"),
    };
    let validator =
        ["ETag", "Last-Modified"].iter().any(|name| !values(&world.response, name).is_empty());
    // A response that can never be reused is not stored.
    let window_s = stored.while_revalidate_s.max(stored.if_error_s);
    let usable = !stored.no_cache && stored.lifetime_s + window_s > stored.initial_age_s;
    (usable || validator).then_some(stored)
}

/// RFC 9111 4.2.1.
fn explicit_lifetime(world: &RandomExchange) -> Option<u64> {
    let declared = directives(&world.response);
    for name in ["s-maxage", "max-age"] {
        if let Some(argument) = first(&declared, name) {
            return Some(number(argument).unwrap_or(0));
        }
    }
    let expires = *values(&world.response, "Expires").first()?;
    let Some(expires_secs) = seconds(expires) else { return Some(0) };
    Some(expires_secs.saturating_sub(made_secs(world)))
}

fn made_secs(world: &RandomExchange) -> u64 {
    values(&world.response, "Date").first().and_then(|date| seconds(date)).unwrap_or(NOW)
}

/// RFC 9111 4.2.2.
fn guessed_lifetime(world: &RandomExchange) -> Option<u64> {
    if let (Some(heuristic), Some(modified)) =
        (world.policy.heuristic, values(&world.response, "Last-Modified").first())
        && let Some(modified_secs) = seconds(modified)
        && modified_secs < made_secs(world)
    {
        let guess_s = (made_secs(world) - modified_secs) * u64::from(heuristic.percent) / 100;
        let guess_s = guess_s.min(u64::from(heuristic.ttl_max_s));
        if guess_s > 0 {
            return Some(guess_s);
        }
    }
    let default_s = u64::from(world.policy.default_ttl_s);
    (default_s > 0).then_some(default_s)
}

/// RFC 9111 4.2.3.
fn initial_age(world: &RandomExchange) -> u64 {
    let apparent_age = NOW.saturating_sub(made_secs(world));
    let age_value = values(&world.response, "Age").first().map(|value| {
        let member = value.split(',').next().unwrap_or("").trim();
        number(&Some(member.to_owned())).unwrap_or(0)
    });
    let corrected_age_value = age_value.unwrap_or(0) + world.delay_s;
    apparent_age.max(corrected_age_value).min(GREATEST_S)
}

/// How a stored response may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OracleDecision {
    Use { refresh: bool },
    Ask { if_error: bool },
    Refuse,
}

/// RFC 9111 4, 4.2.4, 5.2.1; RFC 5861.
fn reuse(
    stored: &Stored,
    world: &RandomExchange,
    requested: &Fields,
    later_s: u64,
) -> OracleDecision {
    let declared = match world.policy.honour_request {
        true => directives(requested),
        false => Vec::new(),
    };
    let has = |name: &str| first(&declared, name).is_some();
    // A directive of a request that cannot be parsed is ignored.
    let limit = |name: &str| {
        declared.iter().filter(|(found, _)| found == name).find_map(|(_, text)| number(text))
    };
    let pragma = !has_cache_control(requested)
        && values(requested, "Pragma").contains(&"no-cache")
        && world.policy.honour_request;
    let no_cache = has("no-cache") || pragma;
    let age_s = (stored.initial_age_s + later_s).min(GREATEST_S);
    let fresh = stored.lifetime_s > age_s;
    let stale_s = age_s.saturating_sub(stored.lifetime_s);
    let max_stale = declared
        .iter()
        .filter(|(name, _)| name == "max-stale")
        .find_map(|(_, text)| if text.is_none() { Some(u64::MAX) } else { number(text) });
    let young = limit("max-age").is_none_or(|most| age_s <= most);
    let lasting = limit("min-fresh").is_none_or(|least| age_s + least <= stored.lifetime_s);
    if fresh && !stored.no_cache && !no_cache && lasting && (young || stored.immutable) {
        return OracleDecision::Use { refresh: false };
    }
    let may_be_stale = !fresh && !stored.no_cache && !stored.never_stale && !no_cache;
    if may_be_stale
        && max_stale.is_some_and(|most| stale_s <= most)
        && young
        && limit("min-fresh").is_none()
    {
        return OracleDecision::Use { refresh: false };
    }
    let silent = max_stale.is_none() && limit("max-age").is_none() && limit("min-fresh").is_none();
    if may_be_stale && silent && stale_s < stored.while_revalidate_s {
        return OracleDecision::Use { refresh: true };
    }
    if has("only-if-cached") {
        return OracleDecision::Refuse;
    }
    let error_s = stored.if_error_s.max(limit("stale-if-error").unwrap_or(0));
    let if_error = !stored.no_cache && !stored.never_stale && error_s > 0 && stale_s <= error_s;
    OracleDecision::Ask { if_error }
}

fn has_cache_control(requested: &Fields) -> bool {
    !values(requested, "Cache-Control").is_empty()
}
