//! Converts `locations` and `servers` of Pike to routes and filters.

use settings::Size;

use super::super::writer::{Writer, list, plain, quoted};
use super::model::Entry;

/// The filters of one server of Pike.
pub(super) struct Serving {
    pub(super) listener: String,
    /// If a location belongs to several servers, its route is named after both.
    pub(super) several: bool,
    /// The cache, and its `hit_for_miss`.
    pub(super) cache: String,
    pub(super) hit_for_miss: Option<String>,
    /// Compression levels of responses that are not stored: `{ gzip: 6 }`.
    pub(super) levels: String,
    /// Compression levels of stored responses.
    pub(super) best_levels: String,
    pub(super) min_size: Size,
    /// `None` for the default.
    pub(super) types: Option<String>,
}

/// Encodings requested from the origin, by upstream.
pub(super) struct Origin {
    pub(super) upstream: String,
    pub(super) codings: Option<Vec<String>>,
    /// It has no supported server.
    pub(super) empty: bool,
}

/// Returns Pike's order of locations: prefix and host, prefix, host, neither.
fn priority(location: &Entry<'_>) -> i64 {
    let has = |field: &str| !location.texts(field).is_empty();
    2 * i64::from(has("prefixes")) + i64::from(has("hosts"))
}

/// Writes the route of a location on a server.
pub(super) fn write(
    location: &mut Entry<'_>,
    serving: &Serving,
    origin: &Origin,
    out: &mut Writer,
) {
    location.expect(&[
        "name",
        "upstream",
        "prefixes",
        "hosts",
        "rewrites",
        "queryStrings",
        "reqHeaders",
        "respHeaders",
        "proxyTimeout",
        "remark",
    ]);
    let matched = matched(location, &serving.listener);
    let filters = filters_after_cache(location);
    for added in location.texts("queryStrings") {
        location.note(format!("queryStrings {added}: parameters cannot be added to a query"));
    }
    let remark = location.text("remark");
    if !remark.is_empty() {
        out.comment(2, &remark);
    }
    out.notes(2, &location.notes);
    let mut name = super::name_of(&location.text("name"));
    if serving.several {
        name = format!("{name}-{}", serving.listener);
    }
    out.line(2, &format!("- name: {}", quoted(&name)));
    out.line(4, &format!("match: {{ {} }}", matched.join(", ")));
    out.line(4, "filters:");
    compress(serving, out);
    cache(serving, origin, out);
    filters.iter().for_each(|filter| out.line(6, filter));
    match origin.empty {
        true => {
            out.note(4, "no upstream: see the note there");
            out.line(4, "handler: { respond: { status: 502 } }");
        }
        false => out.line(4, &format!("handler: {{ upstream: {} }}", origin.upstream)),
    }
}

fn matched(location: &mut Entry<'_>, listener: &str) -> Vec<String> {
    let mut matched = vec![format!("listener: {listener}")];
    let hosts = location.texts("hosts");
    if !hosts.is_empty() {
        let hosts: Vec<String> = hosts.iter().map(|host| quoted(host)).collect();
        matched.push(format!("host: {}", list(&hosts)));
    }
    let prefixes = location.texts("prefixes");
    let mut paths = Vec::new();
    for prefix in &prefixes {
        let bare = prefix.trim_end_matches('/');
        if !prefix.starts_with('/') || prefix.contains(['{', '}', '*', '?', '#', '%']) {
            location.note(format!("the prefix {prefix} cannot be matched here"));
            continue;
        }
        if !bare.is_empty() && !prefix.ends_with('/') {
            let said =
                format!("{prefix} is matched by whole segments, Pike's also takes {prefix}x");
            location.note(said);
        }
        paths.push(quoted(&format!("{bare}/{{*rest}}")));
    }
    if paths.is_empty() {
        paths.push(quoted("/{*rest}"));
    }
    matched.push(format!("path: {}", list(&paths)));
    match priority(location) {
        0 => {}
        priority => matched.push(format!("priority: {priority}")),
    }
    matched
}

fn compress(serving: &Serving, out: &mut Writer) {
    let types = serving.types.as_ref().map(|types| format!(", types: {types}")).unwrap_or_default();
    let levels = &serving.levels;
    let levels = if levels.is_empty() { String::new() } else { format!(", levels: {levels}") };
    let min_size = serving.min_size;
    out.line(
        6,
        &format!("- compress: {{ codings: [br, gzip], min_size: {min_size}{types}{levels} }}"),
    );
}

fn cache(serving: &Serving, origin: &Origin, out: &mut Writer) {
    out.line(6, "- cache:");
    out.line(10, &format!("store: {}", serving.cache));
    out.line(10, "honour_request: false");
    if let Some(span) = &serving.hit_for_miss {
        out.line(10, &format!("hit_for_miss: {span}"));
    }
    out.line(10, "x_status: true");
    out.line(10, "codings:");
    out.line(12, "offer: [br, gzip]");
    out.line(12, &format!("min_size: {}", serving.min_size));
    if let Some(types) = &serving.types {
        out.line(12, &format!("types: {types}"));
    }
    out.line(12, &format!("levels: {}", serving.best_levels));
    if let Some(codings) = &origin.codings {
        out.line(12, &format!("origin: {}", list(codings)));
    }
}

/// Writes the filters after the cache: Pike's changes of requests and responses.
fn filters_after_cache(location: &mut Entry<'_>) -> Vec<String> {
    let mut filters = Vec::new();
    for rewrite in location.texts("rewrites") {
        match rewrite.split_once(':') {
            Some((pattern, replacement)) => {
                let pattern = format!("^{}", escaped(pattern).replace('*', "(.*)"));
                filters.push(format!(
                    "- rewrite: {{ regex: {{ pattern: {}, replace: {} }} }}",
                    quoted(&pattern),
                    quoted(replacement)
                ));
            }
            None => location.note(format!("the rewrite {rewrite} has no colon and does nothing")),
        }
    }
    for (field, filter) in [("reqHeaders", "request_headers"), ("respHeaders", "response_headers")]
    {
        let mut added: Vec<(String, Vec<String>)> = Vec::new();
        for header in location.texts(field) {
            let Some((name, value)) = header.split_once(':') else {
                location.note(format!("{field}: {header} has no colon and does nothing"));
                continue;
            };
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            let value = match environment(value) {
                Some(variable) => {
                    location.note(format!("{field}: {name} is taken from the environment"));
                    plain(&format!("${{{variable}}}"))
                }
                None => quoted(&value.replace('{', "{{").replace('}', "}}")),
            };
            match added.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => added.push((name, vec![value])),
            }
        }
        let added: Vec<String> = added
            .iter()
            .map(|(name, values)| match values.as_slice() {
                [one] => format!("{}: {one}", quoted(name)),
                several => format!("{}: {}", quoted(name), list(several)),
            })
            .collect();
        if !added.is_empty() {
            filters.push(format!("- {filter}: {{ add: {{ {} }} }}", added.join(", ")));
        }
    }
    filters
}

/// Returns the name of the environment variable in `$NAME`.
fn environment(value: &str) -> Option<&str> {
    let name = value.strip_prefix('$')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (!name.is_empty() && name.bytes().all(is_name)).then_some(name)
}

/// Escapes the special characters of regular expressions, except for the star.
fn escaped(pattern: &str) -> String {
    let special = |c: char| ".+?()[]{}|\\".contains(c);
    pattern.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}
