//! `files`: a small and a large file of a directory.

use super::{Case, Kind, Scenario, Serve};
use crate::peers::Protocol;

pub(super) const LARGE: Serve = Serve::File { name: "large.txt", bytes: 1 << 20 };

pub(super) const SCENARIO: Scenario = Scenario {
    name: "files",
    about: "a small and a large static file",
    cases: &[
        Case {
            name: "files-small",
            about: "GET of a file of 4 KiB.",
            replays: None,
            serve: Serve::File { name: "small.txt", bytes: 4 << 10 },
            protocol: Protocol::Http1,
            kind: Kind::Load,
        },
        Case {
            name: "files-large",
            about: "GET of a file of 1 MiB.",
            replays: None,
            serve: LARGE,
            protocol: Protocol::Http1,
            kind: Kind::Load,
        },
    ],
    by_default: false,
};
