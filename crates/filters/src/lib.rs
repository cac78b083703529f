//! The filters that need no room of their own: one file each, settings and life together.
//!
//! Each file declares what may be written, checks it, freezes it into a plan, and is the filter.
//! None owns a socket, spawns a task or takes an exclusive lock while a request runs.

mod compress;
mod header_changes;
mod key_auth;
mod rate_limit;
mod request_id;
mod rewrite;
#[cfg(test)]
mod testing;

use exchange::FilterKind;

/// Every filter of this crate, by name.
pub static ALL: &[FilterKind] = &[
    compress::KIND,
    header_changes::REQUEST,
    header_changes::RESPONSE,
    key_auth::KIND,
    rate_limit::KIND,
    request_id::KIND,
    rewrite::KIND,
];

#[cfg(test)]
mod tests {
    #[test]
    fn every_declaration_is_valid_and_every_name_is_there_once() {
        let mut names: Vec<_> = super::ALL.iter().map(|kind| kind.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), super::ALL.len());
    }
}
