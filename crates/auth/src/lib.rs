//! Consumers, the filters that authenticate them, and the filters that allow and deny requests.
//!
//! Owns the sections `consumers` and `identity`, and the registry that workers look credentials up
//! in. A method of authentication implements `Method`; the filter around it, or around several that
//! are tried in order, rejects, counts and hides credentials alike for all of them. A method that
//! responds itself, such as `oidc`, implements `LastMethod`; it may be the last of several.
//! Promises that a credential appears in no log, no description and no error, and that it is
//! forwarded only if configured.

mod access;
mod any;
mod auth_plan;
mod basic_auth;
mod cert_auth;
mod clear_text;
mod consumers;
mod credential;
mod credential_forms;
mod decoy;
mod form_client;
mod forward_auth;
mod geo;
mod hmac_auth;
mod identity;
mod introspection;
mod jwt;
mod key_auth;
mod last_method;
mod method;
mod oidc;
mod password;
mod registry;
mod signature_key;
mod token;
mod token_source;
mod verified_tokens;

use plugin::FilterKind;

pub use clear_text::server_in_clear;
pub use consumers::{ConsumerSet, ConsumerSettings};
pub use geo::{CountryFile, GeoSettings};
pub use hmac_auth::verify_message;
pub use identity::{IdentitySet, IdentitySettings, IdentityTasks};
pub use registry::{ChangeError, Registry, reread_changes};
pub use token::verify_token;

/// Every filter of this crate, by name.
pub static ALL: &[FilterKind] = &[
    access::ALLOW,
    access::DENY,
    any::KIND,
    basic_auth::KIND,
    cert_auth::KIND,
    forward_auth::KIND,
    hmac_auth::KIND,
    introspection::KIND,
    jwt::KIND,
    key_auth::KIND,
    oidc::KIND,
];

#[cfg(test)]
mod tests {
    #[test]
    fn every_name_is_unique() {
        let mut names: Vec<_> = super::ALL.iter().map(|kind| kind.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), super::ALL.len());
    }
}
