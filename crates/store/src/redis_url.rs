//! The URL of a Redis server: `redis://USER:PASSWORD@HOST:PORT/DATABASE`, `rediss://` over TLS,
//! `unix:///PATH`, each with `?prefix=…&visibility=…`.
//!
//! Promises that its Debug and Display show neither the user nor the password.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use settings::{Duration, Node, Reader, Schema, SchemaBuilder, Setting};

use crate::limits::{DATABASE_MAX, PREFIX_BYTES, VISIBILITY_DEFAULT_S, VISIBILITY_S};
use crate::redis_address::RedisAddress;

/// Where a Redis server is, how a client logs in, and how jobs are stored there.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    text: String,
    pub(crate) address: RedisAddress,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
    prefix: Option<String>,
    visibility_s: u64,
}

impl RedisUrl {
    /// The URL with its credentials. Never format it for a log.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// What all keys begin with.
    pub fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// The time after which a job whose worker has not reported runs again.
    pub fn visibility_s(&self) -> u64 {
        self.visibility_s
    }

    fn set_option(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "db" => self.database = database(value)?,
            "prefix" => {
                let odd = |letter: char| letter.is_control() || "{}".contains(letter);
                if value.is_empty() || value.len() > PREFIX_BYTES || value.contains(odd) {
                    return Err(format!("needs a prefix of 1 to {PREFIX_BYTES} bytes, no braces"));
                }
                self.prefix = Some(value.to_owned());
            }
            "visibility" => {
                let spelled = || value.parse::<Duration>().ok().map(|time| time.get().as_secs());
                let seconds = value.parse::<u64>().ok().or_else(spelled);
                self.visibility_s = seconds
                    .filter(|seconds| VISIBILITY_S.contains(seconds))
                    .ok_or("needs a visibility from 1s to 24h")?;
            }
            _ => {
                return Err(format!(
                    "has the option \"{name}\", which is none of db, prefix and visibility"
                ));
            }
        }
        Ok(())
    }
}

impl FromStr for RedisUrl {
    type Err = String;

    /// The error completes a sentence that begins with the URL, and repeats no credentials.
    fn from_str(text: &str) -> Result<RedisUrl, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        if !matches!(scheme, "redis" | "rediss" | "unix") {
            return Err("does not name a Redis server: write redis://HOST:6379/0, rediss:// for \
                        TLS, or unix:///PATH"
                .to_owned());
        }
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        if options.contains('@') {
            return Err("has an @ after its question mark: write %3F for one in a password".into());
        }
        let (login, location) = match rest.rsplit_once('@') {
            Some((login, location)) => (Some(login), location),
            None => (None, rest),
        };
        let (user, password) = login.map(credentials).transpose()?.unwrap_or_default();
        let (server, path) = match scheme {
            "unix" => (format!("unix:{}", decoded(location)?), ""),
            _ => {
                let (host, path) = location.split_once('/').unwrap_or((location, ""));
                (format!("{scheme}://{host}"), path)
            }
        };
        let address = server.parse()?;
        let database = if path.is_empty() { 0 } else { database(path)? };
        let mut url = RedisUrl {
            text: text.to_owned(),
            address,
            user,
            password,
            database,
            prefix: None,
            visibility_s: VISIBILITY_DEFAULT_S,
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            url.set_option(name, &decoded(value)?)?;
        }
        Ok(url)
    }
}

fn database(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number <= DATABASE_MAX);
    number.ok_or_else(|| format!("needs the number of a database, from 0 to {DATABASE_MAX}"))
}

/// Parses `[USER]:PASSWORD`, or a user alone.
fn credentials(login: &str) -> Result<(Option<String>, Option<String>), String> {
    let (user, password) = login.split_once(':').map_or((login, None), |(u, p)| (u, Some(p)));
    let some = |text: &str| Ok::<_, String>(Some(decoded(text)?).filter(|text| !text.is_empty()));
    Ok((some(user)?, password.map_or(Ok(None), some)?))
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = wire::target::unescape_all(text.as_bytes()).ok().map(Cow::into_owned);
    let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.ok_or_else(|| "has a percent sign that begins no escaped UTF-8".to_owned())
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            RedisAddress::Unix(path) => {
                write!(f, "unix://{}?db={}", path.display(), self.database)
            }
            address => write!(f, "{}/{}", address.with_port(), self.database),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

impl Setting for RedisUrl {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("URL of Redis")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let what = "a URL such as redis://127.0.0.1:6379/0";
        let scalar = reader.scalar(node, what)?;
        // The text `${NAME}` itself is not a secret.
        if scalar.typed.is_none() && scalar.text.contains('@') {
            reader.report().mask(node.span);
        }
        match scalar.text.parse() {
            Ok(url) => Some(url),
            Err(why) => {
                reader.error(node.span, format!("this {why}")).help(format!("expected {what}"));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use settings::{node, read};

    use super::RedisUrl;

    #[test]
    fn forms_of_a_url() {
        for (text, shown) in [
            ("redis://127.0.0.1", "redis://127.0.0.1:6379/0"),
            ("redis://cache.internal:7000/3", "redis://cache.internal:7000/3"),
            ("rediss://[::1]/2?prefix=shop", "rediss://[::1]:6379/2"),
            ("redis://[::1]:1", "redis://[::1]:1/0"),
            ("unix:///run/redis.sock?db=4", "unix:///run/redis.sock?db=4"),
        ] {
            let url: RedisUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(url.expose(), text);
            assert_eq!(url.to_string().parse::<RedisUrl>().unwrap().to_string(), shown);
        }
        let url: RedisUrl = "redis://h/?visibility=90&prefix=a%20b".parse().unwrap();
        assert_eq!((url.prefix(), url.visibility_s(), url.database), (Some("a b"), 90, 0));
        assert_eq!("redis://h?visibility=5m".parse::<RedisUrl>().unwrap().visibility_s(), 300);
    }

    #[test]
    fn credentials_are_decoded_and_not_shown() {
        let url: RedisUrl = "redis://ann:p%40ss:w@h/1".parse().unwrap();
        assert_eq!((url.user.as_deref(), url.password.as_deref()), (Some("ann"), Some("p@ss:w")));
        assert_eq!(format!("{url} {url:?}"), "redis://h:6379/1 RedisUrl(redis://h:6379/1)");
        let url: RedisUrl = "redis://:secret@h".parse().unwrap();
        assert_eq!((url.user, url.password.as_deref()), (None, Some("secret")));
    }

    #[test]
    fn what_is_not_a_url_is_an_error_without_credentials() {
        for (text, expected) in [
            ("127.0.0.1:6379", "write redis://HOST:6379/0"),
            ("postgres://h/x", "does not name a Redis server"),
            ("redis://", "holds no host"),
            ("redis://u:hunter2@:6379", "holds no host"),
            ("redis://u:hunter2@h:x", "holds no host"),
            ("redis://u:hunter2@h/x", "the number of a database"),
            ("redis://u:hunter2%zz@h", "percent sign"),
            ("redis://u:?hunter2@h", "write %3F for one in a password"),
            ("redis://h?visibilty=3", "\"visibilty\", which is none of db, prefix and visibility"),
            ("redis://h?visibility=0", "from 1s to 24h"),
            ("redis://h?prefix=", "a prefix of 1 to 128 bytes"),
            ("unix://run/redis.sock", "no absolute path"),
        ] {
            let why = text.parse::<RedisUrl>().unwrap_err();
            assert!(why.contains(expected) && !why.contains("hunter2"), "{text}: {why}");
        }
        let refused = read::<RedisUrl>(&node!("redis://u:hunter2@h/x")).unwrap_err();
        assert!(refused.contains("the number of a database"), "{refused}");
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}
