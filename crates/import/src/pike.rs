//! Converts a configuration of Pike (v4).
//!
//! A server of Pike becomes a listener, each of its locations a route through `compress` and
//! `cache`, in the order of Pike. Fields without a counterpart, and those with another meaning
//! here, are named in comments.

mod model;
mod routes;
mod upstreams;

use serde_json::Value;
use settings::{Address, Duration, Size};

use super::writer::{Writer, list, quoted};
use model::{Entry, section};
use routes::{Origin, Serving};

/// Pike's profile for cacheable responses, unless the configuration declares it.
const BEST: &str = "bestCompression";

const HEAD: &str = "\
Lines that begin with \"note:\" name what Pike has and we have not, and what means something \
else. Everywhere: responses are stored as RFC 9111 says, so Expires, Vary and Authorization count, \
which Pike does not look at; methods that change things invalidate; what is stale is confirmed \
with the origin instead of fetched again; caches have a size in bytes.";

/// Returns our configuration as YAML, or why the input is not a configuration of Pike.
pub fn convert(pike: &Value, from: &str) -> Result<String, String> {
    let servers = section(pike, "servers");
    if servers.is_empty() {
        return Err(format!("{from} has no servers: it is not a configuration of Pike"));
    }
    let mut out = Writer::default();
    out.comment(
        0,
        &format!("Converted from {from}, a configuration of Pike, by `tidegate import pike`."),
    );
    out.comment(0, HEAD);
    root_notes(pike, &mut out);
    let listeners = listeners(&servers, &mut out)?;
    let mut locations = section(pike, "locations");
    let used = used_locations(&servers, &locations);
    caches(pike, &servers, &mut out);
    let origins = origins(pike, &mut locations, &used, &mut out);
    out.line(0, "routes:");
    let mut written = 0;
    for (server, listener) in servers.iter().zip(&listeners) {
        let mut serving = serving(pike, server, listener, &mut out);
        for name in server.texts("locations") {
            let Some(location) = locations.iter_mut().find(|one| one.text("name") == name) else {
                out.note(2, &format!("the location {name} is not declared"));
                continue;
            };
            let upstream = name_of(&location.text("upstream"));
            let Some(origin) = origins.iter().find(|origin| origin.upstream == upstream) else {
                out.note(
                    2,
                    &format!("the location {name} is left out: its upstream does not exist"),
                );
                continue;
            };
            let uses = |server: &&Entry<'_>| server.texts("locations").contains(&name);
            serving.several = servers.iter().filter(uses).count() > 1;
            let mut once = location.without_notes();
            routes::write(&mut once, &serving, origin, &mut out);
            written += 1;
        }
    }
    if written == 0 {
        return Err(format!("{from} has no location with both a server and an upstream"));
    }
    for location in &locations {
        let name = location.text("name");
        if !used.contains(&name) {
            out.note(2, &format!("the location {name} is used by no server"));
        }
    }
    log(&servers, &mut out);
    Ok(out.finish())
}

/// Returns a valid name: without spaces, never empty.
pub(super) fn name_of(text: &str) -> String {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "{}[],:#&*!|>'\"%@`".contains(c);
    let name: String = text.trim().chars().map(|c| if odd(c) { '-' } else { c }).take(60).collect();
    let starts = name.starts_with(|c: char| c.is_alphabetic());
    match (name.is_empty(), starts) {
        (true, _) => "unnamed".to_owned(),
        (false, true) => name,
        // A number or a word such as `-` would be something else to YAML.
        (false, false) => format!("n{name}"),
    }
}

fn root_notes(pike: &Value, out: &mut Writer) {
    let mut root = Entry::new(pike);
    root.expect(&["version", "admin", "compresses", "caches", "upstreams", "locations", "servers"]);
    if !root.text("version").is_empty() {
        root.note("version is internal to Pike");
    }
    out.notes(0, &root.notes);
    let mut admin = root.child("admin");
    admin.expect(&["user", "password", "prefix", "remark"]);
    if !admin.text("user").is_empty() || !admin.text("password").is_empty() {
        admin.note(
            "admin.user and admin.password: the admin API is on a Unix socket of the user of the \
             server (tidegate ctl); over TCP it takes a token: \
             admin: { bind: \"127.0.0.1:9180\", token: { file: admin.token } }",
        );
    }
    let remark = admin.text("remark");
    if !remark.is_empty() {
        admin.note(format!("admin.remark: {remark}"));
    }
    out.notes(0, &admin.notes);
    out.empty_line();
}

/// Writes a listener for each server and returns their names.
fn listeners(servers: &[Entry<'_>], out: &mut Writer) -> Result<Vec<String>, String> {
    out.line(0, "listeners:");
    let mut names: Vec<String> = Vec::new();
    for server in servers {
        let written = server.text("addr");
        let address: Address = written.parse().map_err(|why| format!("\"{written}\" {why}"))?;
        let port = address.port().unwrap_or_default();
        let mut name = if servers.len() == 1 { "web".to_owned() } else { format!("web-{port}") };
        while names.contains(&name) {
            name.push('x');
        }
        let remark = server.text("remark");
        if !remark.is_empty() {
            out.comment(2, &remark);
        }
        out.line(2, &format!("{name}: {{ bind: {} }}", quoted(&written)));
        names.push(name);
    }
    out.empty_line();
    Ok(names)
}

fn used_locations(servers: &[Entry<'_>], locations: &[Entry<'_>]) -> Vec<String> {
    let named = servers.iter().flat_map(|server| server.texts("locations"));
    named.filter(|name| locations.iter().any(|one| one.text("name") == *name)).collect()
}

fn caches(pike: &Value, servers: &[Entry<'_>], out: &mut Writer) {
    out.line(0, "caches:");
    let mut declared: Vec<String> = Vec::new();
    for mut cache in section(pike, "caches") {
        cache.expect(&["name", "size", "hitForPass", "store", "remark"]);
        let written = cache.text("name");
        if !servers.iter().any(|server| server.text("cache") == written) {
            out.note(2, &format!("the cache {written} is used by no server"));
            continue;
        }
        // Pike counts entries, of which a typical one has 16 KiB.
        let entries =
            cache.number("size").and_then(|size| u64::try_from(size).ok()).unwrap_or(12_800);
        let mib = (entries.saturating_mul(16) / 1024).clamp(64, 1 << 20);
        cache.note(format!(
            "size: {entries} is a number of entries, memory is in bytes: check this value"
        ));
        let disk = store(&mut cache);
        let remark = cache.text("remark");
        if !remark.is_empty() {
            out.comment(2, &remark);
        }
        out.notes(2, &cache.notes);
        let memory = Size::from_bytes(mib << 20);
        out.line(2, &format!("{}: {{ memory: {memory}{disk} }}", name_of(&written)));
        declared.push(written);
    }
    let mut missing: Vec<String> = servers.iter().map(|server| server.text("cache")).collect();
    missing.retain(|cache| !declared.contains(cache));
    missing.sort();
    missing.dedup();
    for cache in missing {
        out.note(2, &format!("the cache {cache} is not declared: this one has the defaults"));
        out.line(2, &format!("{}: {{}}", name_of(&cache)));
    }
    out.empty_line();
}

/// Returns the disk tier that replaces `badger`.
fn store(cache: &mut Entry<'_>) -> String {
    let store = cache.text("store");
    if store.is_empty() {
        return String::new();
    }
    match store.strip_prefix("badger://") {
        Some(path) if path.starts_with('/') => {
            cache
                .note("store: a new directory next to badger's, which is not read; check its size");
            format!(
                ", disk: {{ path: {}, size: 10GiB }}",
                quoted(&format!("{}-tidegate", path.trim_end_matches('/')))
            )
        }
        _ => {
            let kind = store.split("://").next().unwrap_or_default();
            cache.note(format!("store: {kind} is not supported: stores are memory and disk"));
            String::new()
        }
    }
}

/// Writes the upstreams that are used.
fn origins(
    pike: &Value,
    locations: &mut [Entry<'_>],
    used: &[String],
    out: &mut Writer,
) -> Vec<Origin> {
    let mut origins = Vec::new();
    let mut page = Writer::default();
    for mut upstream in section(pike, "upstreams") {
        let written = upstream.text("name");
        let mut response: Option<Duration> = None;
        let mut users = 0;
        for location in locations.iter_mut().filter(|one| used.contains(&one.text("name"))) {
            if location.text("upstream") != written {
                continue;
            }
            users += 1;
            let timeout = location.duration("proxyTimeout");
            if users > 1 && timeout != response {
                upstream.note("proxyTimeout differs between locations: the longest applies to all");
            }
            response = response.max(timeout);
        }
        if users == 0 {
            page.note(2, &format!("the upstream {written} is used by no location of a server"));
            continue;
        }
        if response.is_some() {
            upstream.note(
                "proxyTimeout applied to the whole response, `response` applies to its headers",
            );
        }
        let codings = codings(&mut upstream);
        let empty = !upstreams::write(&mut upstream, &name_of(&written), response, &mut page);
        origins.push(Origin { upstream: name_of(&written), codings, empty });
    }
    if origins.iter().any(|origin| !origin.empty) {
        out.line(0, "upstreams:");
    }
    let page = page.finish();
    page.lines().for_each(|line| out.line(0, line));
    out.empty_line();
    origins
}

fn codings(upstream: &mut Entry<'_>) -> Option<Vec<String>> {
    let written = upstream.text("acceptEncoding");
    if written.is_empty() {
        return None;
    }
    let mut codings = Vec::new();
    for word in written.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word {
            "gzip" | "br" => codings.push(word.to_owned()),
            "zst" | "zstd" => codings.push("zstd".to_owned()),
            _ => upstream.note(format!("acceptEncoding: {word} is not a supported encoding")),
        }
    }
    codings.dedup();
    Some(codings)
}

fn serving(pike: &Value, server: &Entry<'_>, listener: &str, out: &mut Writer) -> Serving {
    let mut server = server.without_notes();
    server.expect(&[
        "addr",
        "locations",
        "cache",
        "compress",
        "compressMinLength",
        "compressContentTypeFilter",
        "logFormat",
        "remark",
    ]);
    let profiles = section(pike, "compresses");
    let profile = |name: &str, gzip: i64, br: i64| {
        let found = profiles.iter().find(|one| one.text("name") == name);
        let levels = found.map(|one| one.child("levels"));
        let level = |coding: &str, default: i64, most: i64| {
            let level = levels.as_ref().and_then(|levels| levels.number(coding));
            level.filter(|level| (1..=most).contains(level)).unwrap_or(default)
        };
        format!("{{ gzip: {}, br: {} }}", level("gzip", gzip, 9), level("br", br, 11))
    };
    let best_levels = profile(BEST, 9, 6);
    let compress = server.text("compress");
    let levels = if compress.is_empty() { String::new() } else { profile(&compress, 6, 6) };
    if !compress.is_empty() && !profiles.iter().any(|one| one.text("name") == compress) {
        server.note(format!("compress: the profile {compress} is not declared"));
    }
    for other in profiles.iter().filter(|one| !one.text("remark").is_empty()) {
        let (name, remark) = (other.text("name"), other.text("remark"));
        server.note(format!("compresses.{name}: {remark}"));
    }
    let min_size = server.size("compressMinLength").unwrap_or(Size::from_bytes(1024));
    let types = types(&mut server);
    let cache =
        section(pike, "caches").into_iter().find(|c| c.text("name") == server.text("cache"));
    let hit_for_miss = cache.and_then(|mut cache| {
        let span = cache.duration("hitForPass");
        server.notes.append(&mut cache.notes);
        let hour = Duration::from_secs(3600);
        if span.is_some_and(|span| span > hour) {
            server.note(
                "hitForPass is at most an hour here; the first response that can be stored ends it",
            );
        }
        span.map(|span| span.min(hour).to_string())
    });
    out.notes(2, &server.notes);
    Serving {
        listener: listener.to_owned(),
        several: false,
        cache: name_of(&server.text("cache")),
        hit_for_miss,
        levels,
        best_levels,
        min_size,
        types,
    }
}

/// Returns media types for the alternatives of Pike's regular expression.
fn types(server: &mut Entry<'_>) -> Option<String> {
    let filter = server.text("compressContentTypeFilter");
    if filter.is_empty() {
        return None;
    }
    let mut types = Vec::new();
    for word in filter.trim_matches(['(', ')']).split('|') {
        let known: &[&str] = match word.trim() {
            "text" => &["text/*"],
            "javascript" => &["text/javascript", "application/javascript"],
            "json" => &["application/json", "*+json"],
            "wasm" => &["application/wasm"],
            "xml" => &["application/xml", "*+xml"],
            "font" => &["font/ttf", "font/otf"],
            "svg" => &["image/svg+xml"],
            _ => {
                server.note(format!(
                    "compressContentTypeFilter: {filter} is a regular expression, types are listed \
                     here: those of the default are"
                ));
                return None;
            }
        };
        types.extend(known.iter().map(|one| quoted(one)));
    }
    Some(list(&types))
}

fn log(servers: &[Entry<'_>], out: &mut Writer) {
    let format =
        servers.iter().map(|server| server.text("logFormat")).find(|text| !text.is_empty());
    if let Some(format) = format {
        out.empty_line();
        out.note(0, &format!("logFormat: {format}: lines are JSON or combined, for all listeners"));
        out.line(0, "log: { access: { format: combined, path: stdout } }");
    }
}

#[cfg(test)]
mod tests {
    use super::{convert, name_of};
    use serde_json::json;

    #[test]
    fn names_are_names() {
        for (written, name) in [("a b", "a-b"), ("", "unnamed"), ("1", "n1"), ("äöü", "äöü")]
        {
            assert_eq!(name_of(written), name);
        }
    }

    #[test]
    fn what_is_none_of_pikes_is_refused() {
        assert!(convert(&json!({ "routes": [] }), "x").unwrap_err().contains("no servers"));
        let alone = json!({ "servers": [{ "addr": ":80", "locations": ["a"] }] });
        assert!(convert(&alone, "x").unwrap_err().contains("no location"));
        let odd = json!({ "servers": [{ "addr": "80 " }] });
        assert!(convert(&odd, "x").is_err());
    }
}
