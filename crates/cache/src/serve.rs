//! Hits: from a request to a stored response, and from there to a response for this request.
//!
//! A lookup reads the worker's own table, then the store, and follows the marker of variants; a
//! response is made with preconditions, ranges and the headers of each use. Nothing here waits,
//! takes a lock that another worker may hold for long, or allocates for what is requested again and
//! again. Whether a stored response may be used is decided in `rules`.

mod lookup;
mod respond;
mod worker_cache;

pub(crate) use lookup::{find, lookup, write_canonical_query};
pub(crate) use respond::{
    PARTIAL_REQUEST_FIELDS, StatusHeaders, add_status, not_modified, respond, without_content,
};
pub(crate) use worker_cache::{StoredEntry, WorkerCache};

#[cfg(test)]
mod tests;
