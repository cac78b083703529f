//! Settings of TLS: certificates in files, and TLS of listeners.
//!
//! Owns how they are written and how files become checked certificates; every error stands at the
//! file that it concerns. The files are read with the configuration and watched as a part of it, so
//! a renewed certificate is a reload, and an invalid one keeps the configuration in use. Never
//! performs a handshake: `net::tls` does.

mod certificate;
mod listener;

pub use certificate::CertificateSetting;
pub use listener::{
    ClientAuthMode, ClientAuthSettings, ListenerTlsSettings, PlainHttp, UnknownName,
};

#[cfg(test)]
mod tests;
