//! `bodies`: large bodies through a proxy, in both directions.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::Protocol;

/// A body that a proxy passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    Download,
    Upload,
    Chunked,
}

const fn case(name: &'static str, about: &'static str, transfer: Transfer) -> Case {
    Case {
        name,
        about,
        replays: None,
        serve: Serve::Bodies(transfer),
        protocol: Protocol::Http1,
        kind: Kind::Load,
    }
}

pub(super) const SCENARIO: Scenario = Scenario {
    name: "bodies",
    about: "1 MB to and from a backend, and 64 KiB in chunks",
    cases: &[
        case("bodies-download", "GET of 1 MB from one backend.", Transfer::Download),
        case("bodies-upload", "POST of 1 MB to one backend.", Transfer::Upload),
        case("bodies-chunked", "GET of 64 KiB that come in chunks of 8 KiB.", Transfer::Chunked),
    ],
    by_default: false,
};
