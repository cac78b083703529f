//! `tidegate ctl caches` and `tidegate ctl purge`.

use serde_json::{Value, json};

use super::show;
use crate::ctl::{Client, caches_table, preview_text, top_entries_tables};
use crate::failure::Failure;
use crate::output::{print, print_json};

/// The arguments that select what to purge.
const WHAT: [&str; 5] = ["url", "prefix", "tag", "group", "all"];

/// Show caches, the top responses of one, or explain why a request is a hit or a miss
#[derive(Debug, clap::Args)]
pub(super) struct CachesOf {
    /// The cache [default: all]
    name: Option<String>,

    /// Explain how a request for this URL would be handled, and show what is stored for it
    #[arg(long, value_name = "URL", requires = "name")]
    explain: Option<String>,

    /// Show so many responses with the most hits, and as many that take the most memory
    /// [default: 10]
    #[arg(long, value_name = "N", requires = "name", conflicts_with = "explain")]
    #[arg(num_args = 0..=1, default_missing_value = "10")]
    top: Option<u32>,

    /// A header field of that request, name: value
    #[arg(short = 'H', long = "header", value_name = "FIELD", requires = "explain")]
    headers: Vec<String>,

    /// Print the response of the API as JSON
    #[arg(long)]
    json: bool,
}

/// Remove responses from a cache and print their number
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(WHAT))]
pub(super) struct Purge {
    /// The cache
    cache: String,

    /// Responses for this URL, with all variants
    #[arg(long)]
    url: Option<String>,

    /// Responses whose URL begins with this
    #[arg(long, value_name = "URL")]
    prefix: Option<String>,

    /// Responses with this tag (Surrogate-Key, Cache-Tag); may be repeated
    #[arg(long)]
    tag: Vec<String>,

    /// Responses in this cache group (RFC 9875); may be repeated
    #[arg(long)]
    group: Vec<String>,

    /// All responses
    #[arg(long)]
    all: bool,

    /// Mark them as stale instead: they are fetched again, and served stale where allowed
    #[arg(long)]
    soft: bool,

    /// Print what would be purged from this server, and purge nothing
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,

    /// Wait until all servers that share purges and can be reached have purged [default: 10]; fails
    /// if one has not
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "10")]
    wait: Option<u64>,
}

impl CachesOf {
    pub(super) fn run(self, client: &Client) -> Result<(), Failure> {
        let Some(name) = &self.name else {
            let caches = client.ask("GET", "/v1/caches")?;
            return show(&caches, self.json, caches_table);
        };
        let path = format!("/v1/caches/{}", encoded(name));
        if let Some(limit) = self.top {
            let top = client.ask("GET", &format!("{path}/top?limit={limit}"))?;
            return show(&top, self.json, top_entries_tables);
        }
        let Some(url) = &self.explain else {
            let cache = client.ask("GET", &path)?;
            let table = |cache: &Value| caches_table(&json!({ "caches": [cache] }));
            return show(&cache, self.json, table);
        };
        let mut target = format!("{path}/explain?url={}", encoded(url));
        for field in &self.headers {
            target.push_str(&format!("&header={}", encoded(field)));
        }
        match self.json {
            true => print_json(&client.ask("GET", &target)?),
            false => print(&client.text(&target)?),
        }
    }
}

impl Purge {
    pub(super) fn run(self, client: &Client) -> Result<(), Failure> {
        if self.dry_run {
            let path = format!("/v1/caches/{}/preview", encoded(&self.cache));
            return print(&preview_text(&client.post(&path, &self.body())?));
        }
        let mut target = format!("/v1/caches/{}/purge", encoded(&self.cache));
        if let Some(seconds) = self.wait {
            target.push_str(&format!("?wait={seconds}"));
        }
        let answer = client.post(&target, &self.body())?;
        print(&format!("purged {}\n", answer["purged"]))?;
        spread(&answer)
    }

    fn body(&self) -> Value {
        let mut body = match (&self.url, &self.prefix) {
            (Some(url), _) => json!({ "url": url }),
            (None, Some(prefix)) => json!({ "prefix": prefix }),
            (None, None) if !self.tag.is_empty() => json!({ "tags": self.tag }),
            (None, None) if !self.group.is_empty() => json!({ "groups": self.group }),
            (None, None) => json!({ "all": self.all }),
        };
        if self.soft {
            body["soft"] = json!(true);
        }
        body
    }
}

/// Shows which other servers have purged; fails if one may not have.
fn spread(answer: &Value) -> Result<(), Failure> {
    let problem = answer["problem"].as_str();
    if answer["published"] == json!(false) {
        let why = problem.unwrap_or("the reason is not known");
        return Err(Failure::Failed(format!("only this server has purged: {why}")));
    }
    if answer["confirmed"].is_null() {
        return Ok(());
    }
    let names = |list: &Value, state: Option<&str>| -> Vec<String> {
        let servers = list.as_array().map(Vec::as_slice).unwrap_or_default().iter();
        let name = |server: &Value| match state {
            None => server.as_str().map(str::to_owned),
            Some(state) if server["state"] == state => server["server"].as_str().map(str::to_owned),
            Some(_) => None,
        };
        servers.filter_map(name).collect()
    };
    print(&format!("on {}\n", names(&answer["applied"], None).join(", ")))?;
    if answer["confirmed"] == json!(true) {
        return Ok(());
    }
    let behind = names(&answer["missing"], Some("behind"));
    let away = names(&answer["missing"], Some("away"));
    let listed = [("not yet on", behind), ("away and not yet on", away)];
    let mut parts: Vec<String> = listed
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what} {}", names.join(", ")))
        .collect();
    parts.extend(problem.map(str::to_owned));
    Err(Failure::Failed(format!("not confirmed: {}", parts.join("; "))))
}

/// Percent-encodes a name or a URL for use in another URL.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b':' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::{Purge, encoded, spread};
    use crate::failure::Failure;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        purge: Purge,
    }

    fn body(words: &[&str]) -> Option<serde_json::Value> {
        let line = [&["purge", "pages"], words].concat();
        Some(Line::try_parse_from(line).ok()?.purge.body())
    }

    #[test]
    fn one_thing_is_meant() {
        assert_eq!(body(&["--url", "http://a/"]), Some(json!({ "url": "http://a/" })));
        let soft = body(&["--tag", "a", "--tag", "b", "--soft"]);
        assert_eq!(soft, Some(json!({ "tags": ["a", "b"], "soft": true })));
        assert_eq!(body(&["--group", "g"]), Some(json!({ "groups": ["g"] })));
        assert_eq!(body(&["--prefix", "http://a/b"]), Some(json!({ "prefix": "http://a/b" })));
        assert_eq!(body(&["--all"]), Some(json!({ "all": true })));
        assert_eq!(body(&["--tag", "a", "--dry-run"]), Some(json!({ "tags": ["a"] })));
        assert_eq!(body(&["--tag", "a", "--dry-run", "--wait"]), None);
        assert_eq!(body(&[]), None);
        assert_eq!(body(&["--all", "--url", "http://a/"]), None);
    }

    #[test]
    fn servers_that_have_not_purged_are_listed() {
        let failure = |answer: serde_json::Value| spread(&answer).err().map(Failure::into_text);
        assert_eq!(failure(json!({ "purged": 1 })), None);
        assert_eq!(failure(json!({ "purged": 1, "published": true, "number": 7 })), None);
        let alone = json!({ "purged": 1, "published": false, "problem": "no etcd" });
        assert_eq!(failure(alone).unwrap(), "only this server has purged: no etcd");
        let waited = json!({ "published": true, "confirmed": true, "applied": ["a"] });
        assert_eq!(failure(waited), None);
        let server = |name: &str, state: &str| json!({ "server": name, "state": state });
        let missing = [server("b", "behind"), server("c", "away"), server("d", "behind")];
        let waited = json!({ "confirmed": false, "applied": ["a"], "missing": missing });
        let expected = "not confirmed: not yet on b, d; away and not yet on c";
        assert_eq!(failure(waited).unwrap(), expected);
    }

    #[test]
    fn names_and_urls_stand_in_urls() {
        assert_eq!(encoded("http://a/b c?d=e&f#g"), "http://a/b%20c%3Fd%3De%26f%23g");
    }
}
