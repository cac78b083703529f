//! `json`: decoding and encoding generated documents, like the page of Z.Haskell.
//!
//! A program does it in a loop and reports its duration; there are no requests.

use super::documents::Document;
use super::{Case, Kind, Scenario, Serve};
use crate::peers::Operation::{self, Decode, Encode};
use crate::peers::Protocol;

const fn case(
    name: &'static str,
    about: &'static str,
    document: Document,
    operation: Operation,
) -> Case {
    let serve = Serve::Json { document, operation };
    Case {
        name,
        about,
        replays: Some("json"),
        serve,
        protocol: Protocol::Http1,
        kind: Kind::Program,
    }
}

pub(super) const SCENARIO: Scenario = Scenario {
    name: "json",
    about: "decoding and encoding of records, numbers, deep objects, and strings with escapes",
    cases: &[
        case("json-decode-records", "Decoding 400 records.", Document::Records, Decode),
        case("json-encode-records", "Encoding 400 records.", Document::Records, Encode),
        case("json-decode-numbers", "Decoding 7 500 numbers.", Document::Numbers, Decode),
        case("json-encode-numbers", "Encoding 7 500 numbers.", Document::Numbers, Encode),
        case("json-decode-deep", "Decoding objects 60 levels deep.", Document::Deep, Decode),
        case("json-encode-deep", "Encoding objects 60 levels deep.", Document::Deep, Encode),
        case("json-decode-strings", "Decoding 500 strings.", Document::Strings, Decode),
        case("json-encode-strings", "Encoding 500 strings.", Document::Strings, Encode),
        case("json-decode-escapes", "Decoding the same, all escaped.", Document::Escapes, Decode),
    ],
    by_default: false,
};
