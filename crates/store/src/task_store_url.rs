//! The URL of the server that stores background jobs: Redis, or PostgreSQL.
//!
//! Promises, as [`RedisUrl`] does, that Debug and Display show neither the user nor the password.

use std::fmt;
use std::str::FromStr;

use settings::{Node, Reader, Schema, SchemaBuilder, Setting};

use crate::redis_url::RedisUrl;

/// Where background jobs are stored.
#[derive(Clone, PartialEq, Eq)]
pub enum TaskStoreUrl {
    Redis(Box<RedisUrl>),
    /// The URL of libpq with the options of Redis's; the driver in Python reads it.
    Postgres(String),
}

impl TaskStoreUrl {
    /// The URL with its credentials. Never format it for a log.
    pub fn expose(&self) -> &str {
        match self {
            TaskStoreUrl::Redis(url) => url.expose(),
            TaskStoreUrl::Postgres(url) => url,
        }
    }
}

impl FromStr for TaskStoreUrl {
    type Err = String;

    /// The error completes a sentence that begins with the URL, and repeats no credentials.
    fn from_str(text: &str) -> Result<TaskStoreUrl, String> {
        match text.split_once("://") {
            Some(("postgres" | "postgresql", rest)) if !rest.is_empty() => {
                Ok(TaskStoreUrl::Postgres(text.to_owned()))
            }
            Some(("redis" | "rediss" | "unix", _)) => {
                Ok(TaskStoreUrl::Redis(Box::new(text.parse()?)))
            }
            _ => Err("names no server that stores jobs: write redis://HOST:6379/0, rediss:// for \
                      TLS, unix:///PATH, or postgresql://USER@HOST/DATABASE"
                .to_owned()),
        }
    }
}

impl fmt::Display for TaskStoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskStoreUrl::Redis(url) => url.fmt(f),
            TaskStoreUrl::Postgres(url) => {
                let (scheme, rest) = url.split_once("://").unwrap_or(("postgresql", url));
                // Options may have a password as well.
                let rest = rest.split('?').next().unwrap_or_default();
                let location = rest.rsplit_once('@').map_or(rest, |(_, location)| location);
                write!(f, "{scheme}://{location}")
            }
        }
    }
}

impl fmt::Debug for TaskStoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskStoreUrl({self})")
    }
}

impl Setting for TaskStoreUrl {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("URL of Redis or PostgreSQL")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let what = "a URL such as redis://127.0.0.1:6379/0 or postgresql://shop@127.0.0.1/shop";
        let scalar = reader.scalar(node, what)?;
        // The text `${NAME}` itself is not a secret.
        if scalar.typed.is_none() && scalar.text.contains(['@', '?']) {
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
    use super::TaskStoreUrl;

    #[test]
    fn both_kinds_are_shown_without_credentials() {
        for (text, shown) in [
            ("redis://:hunter2@h/3", "redis://h:6379/3"),
            ("postgresql://ann:hunter2@db:5433/shop?prefix=a", "postgresql://db:5433/shop"),
            ("postgres://db/shop?password=hunter2", "postgres://db/shop"),
            ("postgresql:///shop?host=/run/postgresql", "postgresql:///shop"),
        ] {
            let url: TaskStoreUrl = text.parse().unwrap();
            assert_eq!((url.to_string().as_str(), url.expose()), (shown, text));
            assert_eq!(format!("{url:?}"), format!("TaskStoreUrl({shown})"));
        }
    }

    #[test]
    fn what_is_not_a_url_is_an_error() {
        for text in ["127.0.0.1", "mysql://h/x", "postgresql://", "postgres"] {
            let why = text.parse::<TaskStoreUrl>().unwrap_err();
            assert!(why.contains("or postgresql://USER@HOST/DATABASE"), "{text}: {why}");
        }
    }
}
