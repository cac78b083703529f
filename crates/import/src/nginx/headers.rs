//! Filters for headers and compression of a location.

use std::ops::RangeInclusive;

use super::super::writer::{list, quoted};
use super::locations::Location;

/// Fields that upstreams receive without a setting, with the value that requests this.
const SENT_ANYWAY: [(&str, &str); 6] = [
    ("host", "$host"),
    ("host", "$http_host"),
    ("x-forwarded-for", "$proxy_add_x_forwarded_for"),
    ("x-forwarded-for", "$remote_addr"),
    ("x-forwarded-proto", "$scheme"),
    ("x-forwarded-host", "$host"),
];

/// Fields of the connection to an upstream, which are ours to set.
const OF_CONNECTION: [&str; 4] = ["connection", "upgrade", "content-length", "transfer-encoding"];

impl Location<'_> {
    /// What is compressed, as settings that follow others.
    fn compression(&self, notes: &mut Vec<String>) -> String {
        let mut settings = String::new();
        for one in self.nearest("gzip_types") {
            let is_type = |name: &&String| name.parse::<plugin::MediaPattern>().is_ok();
            let (types, others): (Vec<&String>, Vec<&String>) =
                one.arguments.iter().partition(is_type);
            notes.extend(others.iter().map(|name| one.part_not_converted(name)));
            if others.is_empty() {
                // nginx compresses HTML in any case.
                let html = ["text/html"].into_iter();
                let types = html.chain(types.iter().map(|name| &***name)).map(quoted);
                settings.push_str(&format!(", types: {}", list(&types.collect::<Vec<_>>())));
            }
        }
        let number = |name: &str, range: RangeInclusive<u32>| {
            let written = self.nearest(name).first()?.arguments.first()?.parse::<u32>().ok()?;
            range.contains(&written).then_some(written)
        };
        if let Some(bytes) = number("gzip_min_length", 0..=u32::MAX) {
            settings.push_str(&format!(", min_size: {bytes}B"));
        }
        if let Some(level) = number("gzip_comp_level", 1..=9) {
            settings.push_str(&format!(", levels: {{ gzip: {level} }}"));
        }
        settings
    }

    /// The filters for headers and compression.
    pub(super) fn headers(&self, notes: &mut Vec<String>) -> Vec<String> {
        let mut filters = Vec::new();
        if self.nearest("gzip").iter().any(|one| one.arguments.first().is_some_and(|a| a == "on")) {
            filters.push(format!("compress: {{ codings: [gzip]{} }}", self.compression(notes)));
        }
        for (directive, filter) in
            [("proxy_set_header", "request_headers"), ("add_header", "response_headers")]
        {
            let mut set: Vec<(String, String)> = Vec::new();
            // The client's own value must not pass where nginx replaces it.
            let mut remove: Vec<String> = Vec::new();
            let mut always = false;
            for one in self.nearest(directive) {
                let [name, value, rest @ ..] = one.arguments.as_slice() else {
                    notes.push(one.not_converted());
                    continue;
                };
                let lower = name.to_ascii_lowercase();
                let is_sent =
                    |known: &(&str, &str)| known.0 == lower && known.1.eq_ignore_ascii_case(value);
                let is_needless =
                    SENT_ANYWAY.iter().any(is_sent) || ["connection", "upgrade"].contains(&&*lower);
                if filter == "request_headers" && is_needless {
                    continue;
                }
                if filter == "request_headers" && self.auth_field(&lower, value).is_some() {
                    continue;
                }
                let is_repeated = set.iter().any(|(known, _)| *known == lower);
                let is_name =
                    wire::token::is_token(lower.as_bytes()) && !OF_CONNECTION.contains(&&*lower);
                let is_valid = is_name && !is_repeated && !value.is_empty();
                match self.template(value).filter(|_| is_valid) {
                    Some(value) => set.push((lower, value)),
                    None => {
                        // An empty value removes the field; these are sent in any case.
                        let is_ours = SENT_ANYWAY.iter().any(|(ours, _)| *ours == lower);
                        if !value.is_empty() || !is_name || is_ours {
                            notes.push(one.not_converted());
                        }
                        let name = quoted(&lower);
                        if filter == "request_headers"
                            && is_name
                            && lower != "host"
                            && !remove.contains(&name)
                        {
                            remove.push(name);
                        }
                    }
                }
                always |= rest.iter().any(|word| word == "always");
            }
            filters.extend(changes(filter, &set, &remove, always));
        }
        filters
    }
}

/// A filter that sets and removes headers, if it does either.
fn changes(
    filter: &str,
    set: &[(String, String)],
    remove: &[String],
    always: bool,
) -> Option<String> {
    let set: Vec<String> =
        set.iter().map(|(name, v)| format!("{}: {}", quoted(name), quoted(v))).collect();
    let mut settings = Vec::new();
    if !set.is_empty() {
        settings.push(format!("set: {{ {} }}", set.join(", ")));
        settings.extend(always.then(|| "always: true".to_owned()));
    }
    if !remove.is_empty() {
        settings.push(format!("remove: {}", list(remove)));
    }
    (!settings.is_empty()).then(|| format!("{filter}: {{ {} }}", settings.join(", ")))
}
