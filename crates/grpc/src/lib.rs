//! The filters that translate to gRPC: `grpc_web` for browsers, `grpc_json` for clients of JSON.
//!
//! A translated request is a gRPC call for the stages behind the filter, and its response is
//! translated back, trailers and failures included. Reads no socket; messages in memory are bounded
//! by the settings.

mod json;
mod web;

use plugin::FilterKind;

/// Every filter of this crate, by name.
pub static ALL: &[FilterKind] = &[json::KIND, web::KIND];
