//! Settings of TLS: certificates in files or from a certificate authority, TLS of listeners and to
//! upstreams.
//!
//! Owns how they are written and how files become checked certificates; every error stands at the
//! file that it concerns. The files are read with the configuration and watched as a part of it, so
//! a renewed certificate is a reload, and an invalid one keeps the configuration in use. Never
//! performs a handshake: `net::tls` does.

mod acme;
mod certificate;
mod listener;
mod upstream;

pub use acme::{AcmeChallenge, AcmePlan, AcmeSettings, ExternalAccount, state_directory};
pub use certificate::CertificateSetting;
pub use listener::{
    BuiltTls, ClientAuthMode, ClientAuthSettings, HstsSettings, ListenerTlsSettings, PlainHttp,
    UnknownName,
};
pub use upstream::UpstreamTlsSettings;

#[cfg(test)]
mod tests;
