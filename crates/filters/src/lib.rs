//! The filters that need no crate of their own, and the handlers `respond` and `redirect`.
//!
//! Each file declares its settings, checks them, builds a plan from them, and implements the
//! filter or handler. None owns a socket, spawns a task or takes an exclusive lock while a request
//! runs.

mod compress;
mod cookies;
mod cors;
mod csrf;
mod header_changes;
mod origin;
mod query;
mod redirect;
mod request_id;
mod respond;
mod rewrite;
mod security_headers;
mod vary;

#[cfg(test)]
use plugin::testing;
use plugin::{FilterKind, HandlerKind};

/// Every filter of this crate, by name.
pub static ALL: &[FilterKind] = &[
    compress::KIND,
    cookies::KIND,
    cors::KIND,
    csrf::KIND,
    header_changes::REQUEST,
    header_changes::RESPONSE,
    query::KIND,
    request_id::KIND,
    rewrite::KIND,
    security_headers::KIND,
];

/// Every handler of this crate, by name.
pub static HANDLERS: &[HandlerKind] = &[respond::KIND, redirect::KIND];

#[cfg(test)]
mod tests {
    #[test]
    fn every_declaration_is_valid_and_every_name_is_unique() {
        let mut names: Vec<_> = super::ALL.iter().map(|kind| kind.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), super::ALL.len());
    }
}
