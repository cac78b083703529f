//! Cache-Control (RFC 9111 5.2): lists of directives with optional arguments.
//!
//! As lenient as 5.2 asks (names in any case, arguments as tokens or quoted strings, unknown
//! directives skipped), and in doubt does not store: a restriction is obeyed in any form, a
//! permission only in its proper form.

use message::Headers;
use wire::cache_control::{Directive, directives};
use wire::{Known, token};

/// The directives of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    /// The first max-age; 0 if it is invalid (RFC 9111 4.2.1).
    pub(crate) max_age_s: Option<u32>,
    pub(crate) s_maxage_s: Option<u32>,
    pub(crate) while_revalidate_s: Option<u32>,
    pub(crate) if_error_s: Option<u32>,
    pub(crate) no_store: bool,
    /// Without field names.
    pub(crate) no_cache: bool,
    /// Without field names.
    pub(crate) private: bool,
    pub(crate) public: bool,
    pub(crate) must_revalidate: bool,
    pub(crate) proxy_revalidate: bool,
    pub(crate) must_understand: bool,
    pub(crate) no_transform: bool,
    pub(crate) immutable: bool,
    /// Fields that no-cache="…" or private="…" lists: they are not stored (RFC 9111 5.2.2.4,
    /// 5.2.2.7).
    pub(crate) fields: Vec<Box<[u8]>>,
}

impl Directives {
    /// Reads Cache-Control.
    pub(crate) fn of(headers: &Headers) -> Directives {
        let mut found = Directives::default();
        for value in headers.get_all(Known::CacheControl) {
            for directive in directives(value) {
                found.add(&directive);
            }
        }
        found
    }

    pub(crate) fn add(&mut self, directive: &Directive<'_>) {
        let bare = directive.argument.is_none();
        if directive.is("max-age") {
            self.max_age_s.get_or_insert(directive.seconds().unwrap_or(0));
        } else if directive.is("s-maxage") {
            self.s_maxage_s.get_or_insert(directive.seconds().unwrap_or(0));
        } else if directive.is("stale-while-revalidate") {
            self.while_revalidate_s.get_or_insert(directive.seconds().unwrap_or(0));
        } else if directive.is("stale-if-error") {
            self.if_error_s.get_or_insert(directive.seconds().unwrap_or(0));
        } else if directive.is("no-store") {
            self.no_store = true;
        } else if directive.is("no-cache") {
            self.no_cache |= !self.names_fields(directive.argument);
        } else if directive.is("private") {
            self.private |= !self.names_fields(directive.argument);
        } else if directive.is("public") {
            self.public |= bare;
        } else if directive.is("must-revalidate") {
            self.must_revalidate = true;
        } else if directive.is("proxy-revalidate") {
            self.proxy_revalidate = true;
        } else if directive.is("must-understand") {
            self.must_understand |= bare;
        } else if directive.is("no-transform") {
            self.no_transform = true;
        } else if directive.is("immutable") {
            self.immutable |= bare;
        }
    }

    /// Adds the names of a qualified directive; false if it has none, or an invalid one.
    pub(crate) fn names_fields(&mut self, argument: Option<&[u8]>) -> bool {
        let Some(argument) = argument else { return false };
        let names: Vec<Box<[u8]>> =
            token::list(argument).map(|name| name.to_ascii_lowercase().into()).collect();
        if names.is_empty() || !names.iter().all(|name| token::is_token(name)) {
            return false;
        }
        self.fields.extend(names);
        true
    }
}
