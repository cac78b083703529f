//! `tidegate ctl caches` and `tidegate ctl purge`.

use serde_json::{Value, json};

use crate::ctl::{Client, caches_table};
use crate::failure::Failure;
use crate::output::print;

/// The arguments that select what to purge.
const WHAT: [&str; 5] = ["url", "prefix", "tag", "group", "all"];

/// Show caches, or explain why a request is a hit or a miss
#[derive(Debug, clap::Args)]
pub(super) struct CachesOf {
    /// The cache [default: all]
    name: Option<String>,

    /// Explain how a request for this URL would be handled, and show what is stored for it
    #[arg(long, value_name = "URL", requires = "name")]
    explain: Option<String>,

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
}

impl CachesOf {
    pub(super) fn run(self, client: &Client) -> Result<(), Failure> {
        let Some(name) = &self.name else {
            let caches = client.ask("GET", "/v1/caches")?;
            return show(&caches, caches_table(&caches), self.json);
        };
        let path = format!("/v1/caches/{}", encoded(name));
        let Some(url) = &self.explain else {
            let cache = client.ask("GET", &path)?;
            let table = caches_table(&json!({ "caches": [cache] }));
            return show(&cache, table, self.json);
        };
        let mut target = format!("{path}/explain?url={}", encoded(url));
        for field in &self.headers {
            target.push_str(&format!("&header={}", encoded(field)));
        }
        match self.json {
            true => print(&format!("{:#}\n", client.ask("GET", &target)?)),
            false => print(&client.text(&target)?),
        }
    }
}

fn show(answer: &Value, table: String, json: bool) -> Result<(), Failure> {
    print(&if json { format!("{answer:#}\n") } else { table })
}

impl Purge {
    pub(super) fn run(self, client: &Client) -> Result<(), Failure> {
        let target = format!("/v1/caches/{}/purge", encoded(&self.cache));
        let answer = client.post(&target, &self.body())?;
        print(&format!("purged {}\n", answer["purged"]))
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

    use super::{Purge, encoded};

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
        assert_eq!(body(&[]), None);
        assert_eq!(body(&["--all", "--url", "http://a/"]), None);
    }

    #[test]
    fn names_and_urls_stand_in_urls() {
        assert_eq!(encoded("http://a/b c?d=e&f#g"), "http://a/b%20c%3Fd%3De%26f%23g");
    }
}
