//! `threads` of an application: what runs WSGI requests.

use settings::{Node, Reader, Schema, SchemaBuilder, Setting};

/// The threads that run the requests of a WSGI application in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WsgiThreads {
    /// As many as needed, up to a default; written as 0 too.
    Auto,
    /// At most this many.
    Count(u16),
    /// Greenlets of gevent's, on one thread.
    Gevent,
}

/// The maximum number of threads.
const MAX: u16 = 1024;

impl std::str::FromStr for WsgiThreads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("auto", _) | (_, Ok(0)) => Ok(WsgiThreads::Auto),
            ("gevent", _) => Ok(WsgiThreads::Gevent),
            (_, Ok(count @ 1..=MAX)) => Ok(WsgiThreads::Count(count)),
            _ => Err(format!("is neither auto nor gevent, nor a number from 0 to {MAX}")),
        }
    }
}

impl Setting for WsgiThreads {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        let count = Schema::Integer { min: Some(0), max: Some(i64::from(MAX)) };
        Schema::OneOf(vec![Schema::words("threads", &["auto", "gevent"]), count])
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "auto, gevent or a number of threads")
    }
}

#[cfg(test)]
mod tests {
    use settings::{node, read};

    use super::WsgiThreads;

    #[test]
    fn words_and_numbers() {
        for (text, threads) in [
            ("auto", WsgiThreads::Auto),
            ("0", WsgiThreads::Auto),
            ("8", WsgiThreads::Count(8)),
            ("gevent", WsgiThreads::Gevent),
        ] {
            assert_eq!(read(&node!(text)), Ok(threads));
        }
        for text in ["1025", "-1", "eventlet", ""] {
            assert!(read::<WsgiThreads>(&node!(text)).is_err(), "{text}");
        }
    }
}
