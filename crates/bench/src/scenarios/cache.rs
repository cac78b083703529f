//! `cache`: a stored document, for clients with and without gzip, and a small document.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::{CacheRequest, Protocol};

/// About what the published page had: 140 KB, a tenth of it as gzip.
const LARGE: usize = 140_000;
pub(super) const SMALL: usize = 1024;
/// One of [`crate::peers::DOCUMENTS`].
const ONE_OF_MANY: usize = 64 << 10;

const fn case(
    name: &'static str,
    about: &'static str,
    bytes: usize,
    asked: CacheRequest,
    replays: Option<&'static str>,
) -> Case {
    Case {
        name,
        about,
        replays,
        serve: Serve::Cached { bytes, asked },
        protocol: Protocol::Http1,
        kind: Kind::Load,
    }
}

pub(super) const SCENARIO: Scenario = Scenario {
    name: "cache",
    about: "hits of a stored document, compressed and not, and of a small one",
    cases: &[
        case(
            "cache-gzip",
            "GET of a stored JSON document of 140 KB by a client that takes gzip; nginx has it as \
             a file with gzip_static.",
            LARGE,
            CacheRequest::Gzip,
            Some("cache"),
        ),
        case(
            "cache-identity",
            "The same by a client that takes no coding; varnish stores gzip, nginx is proxy_cache \
             with sendfile, `baseline` answers it from its configuration.",
            LARGE,
            CacheRequest::Plain,
            Some("cache"),
        ),
        case(
            "cache-small",
            "GET of a stored document of 1 KiB; `baseline` answers it from its configuration.",
            SMALL,
            CacheRequest::Small,
            None,
        ),
    ],
    by_default: false,
};

pub(super) const DISK: Scenario = Scenario {
    name: "cache-disk",
    about: "hits of documents on disk, ten times what fits into the memory of the cache",
    cases: &[case(
        "cache-disk",
        "GET of 2560 stored documents of 64 KiB in turn, a tenth of which fits into the memory of \
         the cache; nginx is proxy_cache with sendfile, varnish stores in a file. The backend has \
         ended before.",
        ONE_OF_MANY,
        CacheRequest::Many,
        None,
    )],
    by_default: false,
};
